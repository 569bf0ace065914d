"""Citations stay true: from what an answer cites to the user's node and its characters."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.base.response.schema import Response
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import DENOISERS, Joins, Shouts, Untouched

from denoise_core import DenoiseResult
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.text.chunk import extract_spans, sentence_spans
from llamaindex_denoise import DenoisePostprocessor, LlamaLLM
from llamaindex_denoise.nodes.citations import origins, resolve_citations

QUESTION = "Where is the red tower?"


def document():
    filler = "The river runs west. Ships pass by. "
    facts = [
        f"{filler}Red tower number {i} is a red tower in Porto. {filler}"
        for i in range(12)
    ]
    return Document(
        text="".join(facts),
        id_="doc",
        metadata={"title": "Towers"},
    )


def index_of(chunk_size=80):
    splitter = SentenceSplitter(
        chunk_size=chunk_size, chunk_overlap=0, include_metadata=False
    )
    parts = splitter.get_nodes_from_documents([document()])
    return parts, VectorStoreIndex(parts, embed_model=MockEmbedding(embed_dim=4))


@pytest.mark.parametrize("method", ["end", "s2a"])
@pytest.mark.parametrize("how", ["sync", "async"])
def test_the_citation_engine_points_to_the_users_nodes_and_characters(
    scripted_llm, method, how
):
    def answers(messages):
        seen_prompts = messages[-1].content
        if "BEGIN " in seen_prompts:  # S2A asks which pieces to keep
            document = seen_prompts.split("BEGIN ", 1)[1].split("\nEND ")[0]
            return (
                ", ".join(re.findall(r"^(\d+) .*[Rr]ed tower", document, re.MULTILINE))
                or "NONE"
            )
        return "They stand in Porto [1], all of them [2, 3]. See also [99]."

    llm = scripted_llm(answers)
    denoiser = (
        DENOISERS["end_sentences"]()
        if method == "end"
        else S2ADenoiser(
            # Without the document's opening sentence, which says whose the towers are.
            LlamaLLM(llm),
            variant="select",
            options=Options(keep_context=False),
        )
    )
    parts, index = index_of()
    engine = CitationQueryEngine.from_args(
        index,
        llm=llm,
        citation_chunk_size=20,
        citation_chunk_overlap=0,
        similarity_top_k=4,
        node_postprocessors=[
            DenoisePostprocessor(denoiser=denoiser, on_error="raise", on_empty="raise")
        ],
    )
    response = (
        engine.query(QUESTION)
        if how == "sync"
        else asyncio.run(engine.aquery(QUESTION))
    )
    originals = {p.node_id: p for p in parts}
    results = resolve_citations(response, parts)
    assert list(results) == [1, 2, 3]
    text = document().text
    for n, (origin,) in results.items():
        assert origin.is_exact
        shown_text = response.source_nodes[n - 1].node.text
        own_value = "".join(
            originals[origin.node_id].text[a:b] for a, b in origin.ranges
        )
        assert own_value in shown_text
        assert "Red tower number" in own_value
        assert "Ships" not in own_value
        assert "".join(text[a:b] for a, b in origin.document_ranges) == own_value


def test_without_the_originals_the_answer_is_all_that_was_kept():
    parts, _ = index_of()
    out = DenoisePostprocessor(denoiser=DENOISERS["end_sentences"]()).postprocess_nodes(
        [NodeWithScore(node=parts[0])], query_str=QUESTION
    )
    (origin,) = origins(out[0])
    assert origin.node_id == parts[0].node_id
    assert not origin.is_exact
    assert "".join(parts[0].text[a:b] for a, b in origin.ranges) == out[0].node.text


def test_an_original_that_changed_is_not_used():
    node = TextNode(text="A red tower. Ships.", id_="a")
    (out,) = DenoisePostprocessor(
        denoiser=DENOISERS["end_sentences"]()
    ).postprocess_nodes([NodeWithScore(node=node)], query_str=QUESTION)
    assert origins(out, [node])[0].is_exact
    assert not origins(out, [TextNode(text="A rad tower. Ships.", id_="a")])[0].is_exact


def test_written_text_stands_for_its_passage_and_is_not_called_exact():
    node = TextNode(text="A red tower.", id_="a")
    (out,) = DenoisePostprocessor(denoiser=Shouts()).postprocess_nodes(
        [NodeWithScore(node=node)], query_str="q"
    )
    (origin,) = origins(out, [node])
    assert (origin.node_id, origin.ranges, origin.is_exact) == ("a", ((0, 12),), False)


def test_joint_text_names_every_node():
    nodes = [NodeWithScore(node=TextNode(text=t, id_=t)) for t in ("one", "two")]
    (out,) = DenoisePostprocessor(denoiser=Joins()).postprocess_nodes(
        nodes, query_str="q"
    )
    assert [(o.node_id, o.ranges, o.is_exact) for o in origins(out, nodes)] == [
        ("one", ((0, 3),), False),
        ("two", ((0, 3),), False),
    ]


def test_nodes_nobody_denoised_have_no_origin():
    node = TextNode(text="x")
    assert origins(node) == ()
    assert resolve_citations(
        Response("so [1] and [2]", [NodeWithScore(node=node)])
    ) == {1: ()}
    assert resolve_citations(Response(None, [])) == {}


class Keeps(Untouched):
    """Keeps the sentences whose place in the text is in ``chosen``."""

    def __init__(self, chosen):
        self.chosen = chosen

    def denoise(self, query, passages):
        out = [
            extract_spans(
                p, [s for i, s in enumerate(sentence_spans(p)) if i in self.chosen]
            )
            for p in passages
        ]
        return DenoiseResult(query, tuple(p for p in out if p))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["Red is on. ", "塔が立つ。", "برج أحمر. ", "Ok 🙂 so! ", "Same here. "]
        ),
        min_size=1,
        max_size=8,
    ),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
)
def test_two_cuts_in_a_row_still_give_exact_characters(pieces, first, second):
    node = TextNode(
        text="".join(pieces),
        id_="a",
        start_char_idx=50,
        end_char_idx=50 + len("".join(pieces)),
    )
    nodes = [NodeWithScore(node=node)]
    for chosen in (first, second):
        nodes = DenoisePostprocessor(denoiser=Keeps(chosen)).postprocess_nodes(
            nodes, query_str="q"
        )
    for out in nodes:
        (origin,) = origins(out, [node])
        assert origin.is_exact
        own_value = "".join(node.text[a:b] for a, b in origin.ranges)
        assert own_value.strip() == out.node.text.strip()
        assert [(a - 50, b - 50) for a, b in origin.document_ranges] == list(
            origin.ranges
        )
