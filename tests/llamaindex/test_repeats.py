"""A place of a document is shown once, what must stay stays, and the events say what was left out."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import NodeWithScore
from llamaindex_denoisers import (
    Fails,
    Untouched,
    frozen,
    nodes_of,
    processed,
    scored,
    texts_of,
)

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
WINDOWS = SentenceWindowNodeParser.from_defaults(window_size=3)(
    [Document(text="".join(SENTENCES), id_="book")]
)
CHUNKS = SentenceSplitter(chunk_size=60, chunk_overlap=30)(BOOK)


def overlapping(order, nodes=CHUNKS):
    copies = [nodes[n % len(nodes)].model_copy() for n in order]
    return [NodeWithScore(node=node, score=0.5) for node in copies]


def windows(order, nodes=WINDOWS):
    replacement = MetadataReplacementPostProcessor(target_metadata_key="window")
    return replacement.postprocess_nodes(overlapping(order, nodes))


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
    before = frozen(hits)
    shown = processed(Untouched(), hits)
    text = "\n".join(hit.node.get_content() for hit in shown)
    for sentence in map(str.strip, SENTENCES):
        was_retrieved = any(sentence in hit.node.get_content() for hit in hits)
        assert text.count(sentence) == int(was_retrieved)
    assert frozen(hits) == before


def test_the_same_words_at_another_place_stay():
    pieces = []
    for n, start in enumerate((0, 11, 400)):
        hit = scored(REPEATED[0], start_char_idx=start, end_char_idx=start + 11)
        hit.node.metadata["piece"] = n
        hit.node.relationships = dict(CHUNKS[0].relationships)
        pieces.append(hit)
    assert len(processed(Untouched(), pieces)) == 3


RECORDS = [{"id": 1, "status": "ok"}, {"id": 2, "status": "failed"}]


@pytest.mark.parametrize("must_keep", ["failed", "status: failed"])
def test_a_node_with_what_must_stay_is_returned_whole_in_its_place(denoiser, must_keep):
    texts = ["Bread.", json.dumps(RECORDS), "The red tower.", "status: failed"]
    hits = nodes_of(texts)
    out = processed(denoiser, hits, must_keep=must_keep, top_n=1)
    pinned = [hit for hit in out if hit in (hits[1], hits[3])]
    assert pinned == [hits[1], hits[3]]
    assert len(out) == 3


def test_a_failure_leaves_overlapping_nodes_as_they_are():
    hits = overlapping(range(9))
    assert texts_of(processed(Fails(), hits)) == texts_of(hits)


def test_lines_that_a_node_repeats_are_kept():
    """Positions that LlamaIndex finds by searching are too small in such a text."""
    text = "a = 1\n" * 60 + "b = 2\n"
    splitter = SentenceSplitter(chunk_size=60, chunk_overlap=20)
    nodes = splitter([Document(text=text, id_="log")])
    hits = overlapping(range(len(nodes)), nodes)
    first_text, *_ = texts_of(processed(Untouched(), hits))
    assert first_text.splitlines() == hits[0].node.text.splitlines()


def test_a_window_whose_sentence_is_in_it_twice_hides_no_other_place():
    text = "Tuesday. Monday. It is closed. It is closed. Monday. Monday. "
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    nodes = parser([Document(text=text, id_="plan")])
    hits = windows([4, 1], nodes)
    assert texts_of(processed(Untouched(), hits)) == texts_of(hits)
