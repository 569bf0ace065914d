"""A place of a document is shown once, what must stay stays, and the events say what was left out."""

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import (
    DENOISERS,
    Joins,
    RedSentences,
    Shouts,
    Untouched,
    nodes_of,
)

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import DenoisePostprocessor, record
from llamaindex_denoise.events import DenoiseEvent

QUESTION = "Where is the red tower?"
SENTENCES = [f"The red tower number {n} is in town {n * 7}. " for n in range(30)]
REPEATED = ["See above. "] * 3  # the same words at places of their own
TEXT = "".join([*SENTENCES[:15], *REPEATED, *SENTENCES[15:]])


WINDOWS = SentenceWindowNodeParser.from_defaults(window_size=3)
CHUNKS = SentenceSplitter(chunk_size=60, chunk_overlap=30)


@cache
def pieces_of(is_window):
    parser = CHUNKS if not is_window else WINDOWS
    return parser.get_nodes_from_documents([Document(text=TEXT, id_="book")])


def windows(order):
    replacement = MetadataReplacementPostProcessor(target_metadata_key="window")
    return replacement.postprocess_nodes(hits_of(True, order))


def overlapping(order):
    return hits_of(False, order)


def hits_of(is_window, order):
    nodes = pieces_of(is_window)
    copies = [nodes[n % len(nodes)].model_copy() for n in order]
    return [NodeWithScore(node=node, score=0.5) for node in copies]


@pytest.mark.parametrize("retrieved", [windows, overlapping])
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 32), max_size=9, unique=True))
def test_what_overlaps_is_shown_once_and_nothing_is_lost(retrieved, order):
    hits = retrieved(order)
    before = [hit.model_dump() for hit in hits]
    postprocessor = DenoisePostprocessor(denoiser=Untouched())
    shown = postprocessor.postprocess_nodes(hits, query_str=QUESTION)
    text = "\n".join(hit.node.get_content() for hit in shown)
    for sentence in map(str.strip, SENTENCES):
        was_retrieved = any(sentence in hit.node.get_content() for hit in hits)
        assert text.count(sentence) == int(was_retrieved)
    assert [hit.model_dump() for hit in hits] == before


def test_the_same_words_at_another_place_stay():
    pieces = []
    for n, start in enumerate((0, 11, 400)):
        node = TextNode(text=REPEATED[0], start_char_idx=start, end_char_idx=start + 11)
        node.metadata["piece"] = n
        node.relationships = dict(overlapping([0])[0].node.relationships)
        pieces.append(NodeWithScore(node=node))
    postprocessor = DenoisePostprocessor(denoiser=Untouched())
    assert len(postprocessor.postprocess_nodes(pieces, query_str=QUESTION)) == 3


def test_the_record_and_the_event_say_what_another_node_shows(event_log):
    hits = overlapping([0, 1])
    shown = DenoisePostprocessor(denoiser=Untouched()).postprocess_nodes(
        hits, query_str=QUESTION
    )
    [(start, end)] = record(shown[1].node)["origin_spans"]
    assert shown[1].node.text == hits[1].node.text[start:end]
    [event] = [event for event in event_log[0] if isinstance(event, DenoiseEvent)]
    reasons = {row["reason"] for row in event.summary["dropped"]}
    assert reasons == {f"the same as in {hits[0].node.node_id}"}


def threshold(pattern):
    scorer = FunctionScorer(lambda query, text: float(pattern in text))
    return ENDDenoiser(scorer, threshold=0.5, min_keep=0, chunker="auto")


def test_what_must_stay_stays_in_its_place_and_counts_towards_no_limit():
    texts = ["A ship.\n\nStatus: failed.", "The red tower.", "Bread.", "Id 7 failed."]
    postprocessor = DenoisePostprocessor(
        denoiser=threshold("red"), must_keep="failed", top_n=1
    )
    out = postprocessor.postprocess_nodes(nodes_of(texts), query_str=QUESTION)
    assert [hit.node.text for hit in out] == ["Status: failed.", texts[1], texts[3]]
    for hit in out:
        origin = texts[int(record(hit.node)["origin_id"][1:])]
        spans = record(hit.node)["origin_spans"]
        assert "".join(origin[a:b] for a, b in spans) == hit.node.text


def test_a_field_can_name_what_must_stay(event_log):
    text = "It rained. " * 40
    records = [{"id": 1, "status": "ok"}, {"id": 2, "status": "failed"}]
    rows = json.dumps([{**row, "text": text} for row in records])
    postprocessor = DenoisePostprocessor(
        denoiser=threshold("red"), must_keep={"status": "^failed"}, on_empty="drop"
    )
    [out] = postprocessor.postprocess_nodes(nodes_of([rows]), query_str=QUESTION)
    assert '"id": 2' in out.node.text
    assert '"id": 1' not in out.node.text
    [event] = [event for event in event_log[0] if isinstance(event, DenoiseEvent)]
    dropped = "".join(rows[r["start"] : r["end"]] for r in event.summary["dropped"])
    assert '"id": 1' in dropped
    assert '"id": 2' not in dropped


@pytest.mark.parametrize("denoiser", [Shouts(), Joins()], ids=["each", "all at once"])
def test_what_must_stay_is_verbatim_where_a_model_writes(denoiser):
    hits = nodes_of(["The red tower.", "Id 7 failed."])
    postprocessor = DenoisePostprocessor(denoiser=denoiser, must_keep="failed")
    out = postprocessor.postprocess_nodes(hits, query_str=QUESTION)
    assert out[-1].node.text == "Id 7 failed."


@pytest.mark.parametrize("name", sorted(DENOISERS))
def test_a_pattern_without_a_match_changes_nothing(name):
    plain, pinned = (
        DenoisePostprocessor(denoiser=DENOISERS[name](), must_keep=pattern)
        for pattern in (None, "no such words")
    )
    both_texts = [
        [h.node.text for h in part.postprocess_nodes(nodes_of(), query_str=QUESTION)]
        for part in (plain, pinned)
    ]
    assert both_texts[0] == both_texts[1]


def test_a_broken_pattern_is_an_error_at_once():
    with pytest.raises(ValueError, match="must_keep="):
        DenoisePostprocessor(denoiser=RedSentences(), must_keep="(")
