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
from llamaindex_denoisers import Untouched, frozen, processed, scored
from llamaindex_engines import Fixed, inner, outcome_of
from rerank_server import words

from denoise_core import DenoiseResult, Guard, Pipeline
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers import LLMDiscrim
from denoise_core.testing import FunctionLLM, FunctionScorer
from llamaindex_denoise import Checked, record
from llamaindex_denoise.nodes.convert import to_passages
from llamaindex_denoise.nodes.headers import node_header

REVENUE = "Revenue was 12.4 million euros."
QUERY = "What was the revenue of Alpha in 2023?"


def companies():
    """One sentence, three times; only metadata tells them apart."""
    return [
        scored(REVENUE, 0.5, id_=name, metadata={"company": name, "year": year})
        for name, year in (("Beta", 2023), ("Alpha", 2023), ("Gamma", 2022))
    ]


def test_end_keeps_the_node_its_metadata_speaks_for():
    end = ENDDenoiser(FunctionScorer(words), keep=1)
    (kept_items,) = processed(end, companies(), QUERY)
    assert kept_items.node.node_id == "Alpha"
    assert kept_items.node.text == REVENUE, "the header is no part of the text"


def test_a_judge_holds_an_answer_against_what_an_llm_is_shown():
    def outcome(answer, **hidden):
        metadata = {"company": "Alpha", "year": 2023}
        retriever = Fixed([scored(REVENUE, 0.5, metadata=metadata, **hidden)])
        engine = inner(answer, retriever)
        response = Checked(engine, judge=by_words()).query("What was the revenue?")
        return outcome_of(response)

    right = "The revenue of Alpha in 2023 was 12.4 million euros."
    assert outcome(right) == "supported"
    assert outcome(right.replace("2023", "2021")) != "supported"
    assert outcome(right, excluded_llm_metadata_keys=["year"]) != "supported", (
        "nobody was shown the year"
    )


@pytest.mark.parametrize(
    "node",
    [
        TextNode(text="body", metadata={"a": 1, "b": "two"}),
        TextNode(text="body"),
        TextNode(
            text="body",
            metadata={"a": 1, "b": 2},
            excluded_llm_metadata_keys=["a"],
            excluded_embed_metadata_keys=["a", "b"],
        ),
        TextNode(
            text="body",
            metadata={"a": 1, "b": 2},
            metadata_template="<{key}={value}>",
            metadata_separator=" ",
        ),
        Document(text="body", metadata={"a": 1}),
        Node(text_resource={"text": "body"}, metadata={"a": 1}),
        ImageNode(
            text="body", metadata={"a": 1}, image_url="https://example.org/a.png"
        ),
    ],
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
        scored(
            text,
            id_=f"n{i}",
            metadata={"title": f"Towers {i}", "file": SECRET},
            excluded_llm_metadata_keys=["file"],
        )
        for i, text in enumerate(texts)
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
    processed(PROMPTING[name](seen_prompts), secret_nodes(), on_error="raise")
    assert any("title: Towers 0" in prompt for prompt in seen_prompts)
    assert not any(SECRET in prompt for prompt in seen_prompts)


def test_a_scorer_reads_what_is_embedded_and_not_what_only_an_llm_is_shown():
    read = []
    scorer = FunctionScorer(lambda q, t: read.append(t) or 1.0)
    processed(ENDDenoiser(scorer, keep=1), secret_nodes())
    assert all(SECRET in t and "title: Towers" in t for t in read)


class NothingFits(Untouched):
    """Keeps everything and says that nothing is relevant."""

    def denoise(self, query, passages):
        return DenoiseResult(query, tuple(passages), relevant=False, note="no match")


def test_relevance_and_note_are_in_the_metadata_and_in_no_prompt():
    hits = companies()
    before = frozen(hits)
    out = processed(NothingFits(), hits)
    assert len(out) == len(hits)
    for kept in out:
        assert record(kept.node)["relevant"] is False
        assert kept.node.metadata["denoise_relevant"] is False
        assert kept.node.metadata["denoise_note"] == "no match"
        assert "denoise" not in kept.node.get_content(MetadataMode.LLM)
        assert "denoise" not in kept.node.get_content(MetadataMode.EMBED)
    assert frozen(hits) == before
    for kept in processed(Untouched(), out):
        assert "denoise_relevant" not in kept.node.metadata
