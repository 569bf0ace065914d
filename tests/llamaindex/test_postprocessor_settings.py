"""What the postprocessor is told with one word each, and settings that come back from JSON."""

import pytest
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llamaindex_engines import nodes

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.end.denoiser import NOT_RELEVANT
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import DenoisePostprocessor, record

QUESTION = "Where is the red tower?"


def texts(postprocessor, results=None):
    return [
        hit.text
        for hit in postprocessor.postprocess_nodes(
            results or nodes(), query_str=QUESTION
        )
    ]


def test_keep_is_the_rule_of_the_default():
    assert len(texts(DenoisePostprocessor(keep=1))) == 1
    assert len(texts(DenoisePostprocessor(keep=2, order="score"))) == 2
    assert texts(DenoisePostprocessor(threshold=-1e9)) == [hit.text for hit in nodes()]


def test_keep_is_the_rule_of_a_denoiser_that_is_given():
    end = ENDDenoiser(FunctionScorer(lambda q, t: float("red" in t)), threshold=0.5)
    assert len(texts(DenoisePostprocessor(denoiser=end))) == 1
    assert len(texts(DenoisePostprocessor(denoiser=end, keep=2))) == 2
    assert len(texts(DenoisePostprocessor(denoiser=end))) == 1, (
        "the denoiser itself stays"
    )


def test_nodes_and_questions_given_otherwise():
    every = DenoisePostprocessor(keep=5)
    assert texts(every, (n for n in nodes())) == [hit.text for hit in nodes()]
    with pytest.raises(InputError, match="query_str="):
        every.postprocess_nodes(nodes(), QUESTION)


def test_settings_reach_the_denoiser_and_the_record_says_what_it_found():
    assert len(texts(DenoisePostprocessor(max_tokens=12))) == 1
    assert DenoisePostprocessor(risk=0.2).active_denoiser.rule.risk == 0.2
    far_question = {"query_str": "Which enzyme do limpets lack?"}
    kept_nodes = DenoisePostprocessor().postprocess_nodes(nodes(), **far_question)
    assert record(kept_nodes[0].node)["relevant"] is False
    assert record(kept_nodes[0].node)["note"].startswith("nothing seems to bear")
    kind = ("ENDDenoiser", NOT_RELEVANT)
    count = fallback_counts().get(kind, 0)
    emptied = DenoisePostprocessor(on_irrelevant="drop", top_n=2)
    assert emptied.postprocess_nodes(nodes(), **far_question) == []
    assert fallback_counts()[kind] == count + 1
    loaded = DenoisePostprocessor.from_dict(emptied.to_dict())
    assert loaded.postprocess_nodes(nodes(), **far_question) == []


def test_nodes_of_one_document_share_its_title_and_its_table_header():
    sheet = (
        "# Pump 260\n\n| What | Value |\n|---|---|\n| Noise | 58 dB |\n| Fuse | 6 A |\n"
    )
    position = sheet.index("| Fuse")
    document = RelatedNodeInfo(node_id="sheet")
    pieces = []
    for start, end in ((0, position), (position, len(sheet))):
        piece = TextNode(text=sheet[start:end], start_char_idx=start, end_char_idx=end)
        piece.relationships = {NodeRelationship.SOURCE: document}
        pieces.append(NodeWithScore(node=piece, score=0.5))
    scorer = FunctionScorer(lambda query, text: float("6 A" in text))
    end = ENDDenoiser(scorer, keep=1, chunker="auto")
    assert texts(DenoisePostprocessor(denoiser=end), pieces) == [
        "# Pump 260\n\n| What | Value |\n|---|---|\n",
        "| Fuse | 6 A |\n",
    ]


def test_a_model_that_finds_no_answer_marks_the_nearest_nodes(scripted_llm):
    llm = scripted_llm(lambda messages: "1\nANSWERED: no")
    settings = {"method": "select", "llm": llm}
    question = {"query_str": "Which enzyme do limpets lack?"}
    kept_nodes = DenoisePostprocessor(**settings).postprocess_nodes(nodes(), **question)
    assert len(kept_nodes) == 1
    assert record(kept_nodes[0].node)["relevant"] is False
    assert "finds no answer" in record(kept_nodes[0].node)["note"]
    dropping = DenoisePostprocessor(**settings, on_irrelevant="drop")
    assert dropping.postprocess_nodes(nodes(), **question) == []
