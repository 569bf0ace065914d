"""A place of a document is shown once, what must stay stays, and the events say what was left out."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import (
    DENOISERS,
    Fails,
    RedSentences,
    Untouched,
    nodes_of,
    texts_of,
)

from llamaindex_denoise import DenoisePostprocessor, record
from llamaindex_denoise.events import DenoiseEvent

QUESTION = "Where is the red tower?"
SENTENCES = [f"The red tower number {n} is in town {n * 7}. " for n in range(30)]
REPEATED = ["See above. "] * 3  # the same words at places of their own
TEXT = "".join(
    [
        *SENTENCES[:15],
        *REPEATED,
        *SENTENCES[15:],
    ]
)


BOOK = [Document(text=TEXT, id_="book")]
WINDOWS = SentenceWindowNodeParser.from_defaults(window_size=3)(BOOK)
CHUNKS = SentenceSplitter(chunk_size=60, chunk_overlap=30)(BOOK)


def overlapping(order, nodes=CHUNKS):
    copies = [nodes[n % len(nodes)].model_copy() for n in order]
    return [NodeWithScore(node=node, score=0.5) for node in copies]


def windows(order):
    replacement = MetadataReplacementPostProcessor(target_metadata_key="window")
    return replacement.postprocess_nodes(overlapping(order, WINDOWS))


@pytest.mark.parametrize("retrieved", [windows, overlapping])
@settings(max_examples=30)
@given(
    st.lists(
        st.integers(0, 32),
        max_size=9,
        unique=True,
    )
)
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


RECORDS = [{"id": 1, "status": "ok"}, {"id": 2, "status": "failed"}]


@pytest.mark.parametrize("name", sorted(DENOISERS))
@pytest.mark.parametrize("must_keep", ["failed", "status: failed"])
def test_a_node_with_what_must_stay_is_returned_whole_in_its_place(name, must_keep):
    texts = ["Bread.", json.dumps(RECORDS), "The red tower.", "status: failed"]
    hits = nodes_of(texts)
    postprocessor = DenoisePostprocessor(
        denoiser=DENOISERS[name](), must_keep=must_keep, top_n=1
    )
    out = postprocessor.postprocess_nodes(hits, query_str=QUESTION)
    pinned = [hit for hit in out if hit in (hits[1], hits[3])]
    assert pinned == [hits[1], hits[3]]
    assert len(out) == 3


def test_a_field_of_another_value_is_no_reason_to_stay():
    postprocessor = DenoisePostprocessor(
        denoiser=RedSentences(), must_keep="status: lost", on_empty="drop"
    )
    hits = nodes_of([json.dumps(RECORDS), "status: failed"])
    assert postprocessor.postprocess_nodes(hits, query_str=QUESTION) == []


def test_a_failure_leaves_overlapping_nodes_as_they_are():
    hits = overlapping(range(9))
    kept = DenoisePostprocessor(denoiser=Fails()).postprocess_nodes(
        hits, query_str=QUESTION
    )
    assert texts_of(kept) == texts_of(hits)


def test_lines_that_a_node_repeats_are_kept():
    """Positions that LlamaIndex finds by searching are too small in such a text."""
    text = "a = 1\n" * 60 + "b = 2\n"
    splitter = SentenceSplitter(chunk_size=60, chunk_overlap=20)
    nodes = splitter.get_nodes_from_documents([Document(text=text, id_="log")])
    hits = [NodeWithScore(node=node, score=0.5) for node in nodes]
    kept = DenoisePostprocessor(denoiser=Untouched()).postprocess_nodes(
        hits, query_str=QUESTION
    )
    first_lines = hits[0].node.text.splitlines()
    assert kept[0].node.text.splitlines() == first_lines
