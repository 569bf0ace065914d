"""Metadata is read where LlamaIndex itself would show it, and nowhere else; what is cut is the text alone."""

import pytest
from judging import by_words
from llama_index.core.schema import (
    Document,
    ImageNode,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)
from llamaindex_denoisers import Untouched, both
from llamaindex_engines import Fixed, always, inner, outcome_of

from denoise_core import DenoiseResult, Guard, Pipeline
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import LLMDiscrim
from denoise_core.testing import FunctionLLM, FunctionScorer
from llamaindex_denoise import Checked, DenoisePostprocessor, record
from llamaindex_denoise.nodes.convert import to_passages
from llamaindex_denoise.nodes.headers import node_header

REVENUE = "Revenue was 12.4 million euros."
QUERY = "What was the revenue of Alpha in 2023?"


def companies():
    """One sentence, three times; only metadata tells them apart."""
    return [
        NodeWithScore(
            node=TextNode(
                text=REVENUE, id_=name, metadata={"company": name, "year": year}
            ),
            score=0.5,
        )
        for name, year in (("Beta", 2023), ("Alpha", 2023), ("Gamma", 2022))
    ]


def shared_words(query, text):
    return float(len(set(query.lower().strip("?").split()) & set(text.lower().split())))


def test_end_keeps_the_node_its_metadata_speaks_for():
    end = ENDDenoiser(FunctionScorer(shared_words), keep=1)
    (kept_items,) = both(DenoisePostprocessor(denoiser=end), companies(), QUERY)
    assert kept_items.node.node_id == "Alpha"
    assert kept_items.node.text == REVENUE, "the header is no part of the text"


def test_a_judge_holds_an_answer_against_what_an_llm_is_shown(scripted_llm):
    def outcome(answer, **hidden):
        node = TextNode(
            text=REVENUE, metadata={"company": "Alpha", "year": 2023}, **hidden
        )
        retriever = Fixed([NodeWithScore(node=node, score=0.5)])
        engine = inner(scripted_llm(always(answer)), retriever)
        response = Checked(engine, judge=by_words()).query("What was the revenue?")
        return outcome_of(response)

    right = "The revenue of Alpha in 2023 was 12.4 million euros."
    assert outcome(right) == "supported"
    assert outcome(right.replace("2023", "2021")) != "supported"
    assert outcome(right, excluded_llm_metadata_keys=["year"]) != "supported", (
        "nobody was shown the year"
    )


NODES = [
    TextNode(text="body", metadata={"a": 1, "b": "two"}),
    TextNode(text="body"),
    TextNode(
        text="body",
        metadata={"a": 1, "b": 2},
        excluded_llm_metadata_keys=["a"],
    ),
    TextNode(
        text="body", metadata={"a": 1, "b": 2}, excluded_embed_metadata_keys=["a", "b"]
    ),
    TextNode(
        text="body",
        metadata={"a": 1, "b": 2},
        metadata_template="<{key}={value}>",
        metadata_separator=" ",
    ),
    Document(text="body", metadata={"a": 1}),
    Node(text_resource={"text": "body"}, metadata={"a": 1}),
    ImageNode(text="body", metadata={"a": 1}, image_url="https://example.org/a.png"),
]


@pytest.mark.parametrize(
    "node",
    NODES,
    ids=range(len(NODES)),
)
@pytest.mark.parametrize(
    "mode", [MetadataMode.EMBED, MetadataMode.LLM, MetadataMode.NONE]
)
def test_a_headed_passage_is_what_llamaindex_shows(node, mode):
    (passage,) = to_passages([NodeWithScore(node=node)], mode)
    assert passage.text == "body"
    assert passage.text_with_header.split() == node.get_content(mode).split()


def test_what_a_template_writes_is_no_metadata():
    template = "About {metadata_str}:\n{content}"
    node = TextNode(text="body", metadata={"a": 1}, text_template=template)
    assert node_header(node, MetadataMode.LLM) == "a: 1"


SECRET = "ward 7, patient 4711"


def secret_nodes():
    texts = [
        "The red tower is in Porto. Bread is cheap.",
        "The blue bridge is long. It is old.",
    ]
    return [
        NodeWithScore(
            node=TextNode(
                text=t,
                id_=f"n{i}",
                metadata={"title": f"Towers {i}", "file": SECRET},
                excluded_llm_metadata_keys=["file"],
            )
        )
        for i, t in enumerate(texts)
    ]


def noting(seen_prompts, text):
    """A model that notes its prompts and always says the same."""

    def reply(messages):
        seen_prompts.append("\n".join(message.content for message in messages))
        return text

    return FunctionLLM(reply)


def s2a(seen_prompts):
    return S2ADenoiser(noting(seen_prompts, "1"), variant="select")


def discrim(seen_prompts):
    return ENDDenoiser(LLMDiscrim(noting(seen_prompts, "yes")), threshold=0.5)


def after_end(seen_prompts):
    """Every step of a pipeline reads what an LLM is shown, also the one that scores."""
    scorer = FunctionScorer(lambda q, t: seen_prompts.append(t) or 1.0)
    return Pipeline(ENDDenoiser(scorer, keep=2), s2a(seen_prompts))


PROMPTING = {
    "s2a": s2a,
    "guarded": lambda seen_prompts: Guard(s2a(seen_prompts)),
    "after END": after_end,
    "a scorer that asks": discrim,
}


@pytest.mark.parametrize("name", PROMPTING)
def test_a_title_stands_in_the_prompt_and_an_excluded_key_never_does(name):
    seen_prompts = []
    both(
        DenoisePostprocessor(denoiser=PROMPTING[name](seen_prompts), on_error="raise"),
        secret_nodes(),
    )
    assert any("title: Towers 0" in prompt for prompt in seen_prompts)
    assert not any(SECRET in prompt for prompt in seen_prompts)


def test_a_passage_has_no_excluded_title_for_prompts_to_show():
    (hit, _) = secret_nodes()
    hit.node.excluded_llm_metadata_keys.append("title")
    (passage,) = to_passages([hit])
    assert dict(passage.metadata) == {}
    assert "title" in hit.node.metadata


def test_a_scorer_reads_what_is_embedded_and_not_what_only_an_llm_is_shown():
    read = []
    scorer = FunctionScorer(lambda q, t: read.append(t) or 1.0)
    both(DenoisePostprocessor(denoiser=ENDDenoiser(scorer, keep=1)), secret_nodes())
    assert all(SECRET in t and "title: Towers" in t for t in read)


class NothingFits(Untouched):
    """Keeps everything and says that nothing is relevant."""

    def denoise(self, query, passages):
        return DenoiseResult(query, tuple(passages), relevant=False, note="no match")


def test_relevance_and_note_are_in_the_metadata_and_in_no_prompt():
    hits = companies()
    before = [dict(hit.node.metadata) for hit in hits]
    out = both(DenoisePostprocessor(denoiser=NothingFits()), hits)
    assert len(out) == len(hits)
    for kept in out:
        assert record(kept.node)["relevant"] is False
        assert kept.node.metadata["denoise_relevant"] is False
        assert kept.node.metadata["denoise_note"] == "no match"
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "denoise" not in kept.node.get_content(mode)
    assert [dict(hit.node.metadata) for hit in hits] == before
    for kept in both(DenoisePostprocessor(denoiser=Untouched()), out):
        assert "denoise_relevant" not in kept.node.metadata
