"""The contract of every adapter, over every denoiser: what goes in comes back true, in sync and async."""

import json

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)
from llamaindex_denoisers import (
    DENOISERS,
    TEXTS,
    RedSentences,
    Shouts,
    Untouched,
    both,
    frozen,
    ids_of,
    kept_characters,
    nodes_of,
    texts_of,
)

from denoise_core import DenoiseResult, Passage, Span
from llamaindex_denoise import DenoisePostprocessor, record
from llamaindex_denoise.events import DenoiseEvent


def without_ours(node):
    """A node's relationships, without the record that stands in the one to its source."""
    data = {k: r.model_dump() for k, r in node.relationships.items()}
    for related in data.values():
        related["metadata"].pop("denoise", None)
    return data


def test_originals_untouched_and_identity_kept(denoiser):
    nodes = nodes_of()
    before = frozen(nodes)
    vectors = [hit.node.embedding for hit in nodes]
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes)
    assert frozen(nodes) == before
    assert [hit.node.embedding for hit in nodes] == vectors
    assert out
    originals = {n.node.node_id: n for n in nodes}
    ids = ids_of(out)
    assert ids == [i for i in originals if i in ids] or ids == ["joint"]
    for hit in out:
        origin = originals.get(hit.node.node_id, nodes[0])
        assert hit.node is not origin.node
        assert hit.score == origin.score
        assert hit.node.ref_doc_id == "doc"
        assert hit.node.metadata["tags"] == ["a", "b"]
        assert "tags" in hit.node.excluded_llm_metadata_keys
        if hit.node.node_id in originals:
            assert without_ours(hit.node) == without_ours(origin.node)
            assert hit.node.metadata["page"] == origin.node.metadata["page"]


def test_what_we_add_stays_out_of_prompts_and_embeddings(denoiser):
    for hit in both(DenoisePostprocessor(denoiser=denoiser), nodes_of()):
        assert record(hit.node)
        for mode in MetadataMode:
            assert "denoise" not in hit.node.get_content(mode)
            assert "origin" not in hit.node.get_content(mode)


def test_every_node_says_where_its_text_stands(denoiser):
    nodes = nodes_of()
    source = {hit.node.node_id: hit.node for hit in nodes}
    for n in both(DenoisePostprocessor(denoiser=denoiser), nodes):
        note = record(n.node)
        assert note is not None
        assert json.loads(json.dumps(note)) == note, "the record is not plain JSON"
        assert (
            note["origin_hash"] == source[n.node.node_id].hash
            if n.node.node_id in source
            else True
        )
        if note["origin_extractive"]:
            text = source[note["origin_id"]].text
            assert n.node.text == kept_characters(text, note)
            document_start = source[note["origin_id"]].start_char_idx
            assert note["origin_range"] == [document_start, document_start + len(text)]


def test_changed_nodes_lose_what_is_no_longer_true():
    out = both(DenoisePostprocessor(denoiser=RedSentences()), nodes_of())
    first, _, _ = out
    assert first.node.text == "The red tower is in Porto. "
    assert first.node.embedding is None
    assert first.node.start_char_idx == 0
    assert first.node.end_char_idx == 27
    assert out[-1].node.embedding == [0.0, 1.0]  # kept whole
    (gap,) = both(
        DenoisePostprocessor(denoiser=RedSentences()),
        nodes_of(["A red cat. Ok so. A red dog."]),
    )
    assert gap.node.start_char_idx is None
    assert gap.node.end_char_idx is None
    assert record(gap.node)["origin_spans"] == [[0, 11], [18, 28]]


def test_a_numpy_score_becomes_a_float(denoiser):
    node = NodeWithScore(node=TextNode(text="red", id_="x"))
    node.score = numpy.float32(0.5)
    for hit in both(DenoisePostprocessor(denoiser=denoiser), [node]):
        assert type(hit.score) is float
        hit.model_dump_json()


def test_a_copy_of_written_text_is_not_the_sources():
    nodes = nodes_of()[:1]
    note = None
    for denoiser in (RedSentences(), Shouts(), Untouched()):
        nodes = both(DenoisePostprocessor(denoiser=denoiser), nodes)
        note = record(nodes[0].node)
    assert note["origin_extractive"] is False
    assert note["op"] == "RedSentences > Shouts > Untouched"
    assert note["origin_id"] == "n0"
    assert note["score_before"] == 0.9


def test_metadata_of_the_same_name_is_the_users():
    node = TextNode(text="red", id_="x", metadata={"denoise": {"mine": 1}})
    (out,) = both(
        DenoisePostprocessor(denoiser=Untouched()), [NodeWithScore(node=node)]
    )
    assert out.node.metadata == node.metadata == {"denoise": {"mine": 1}}
    assert record(out.node)["origin_id"] == "x"
    assert record(node) is None


def test_nodes_without_text_pass_through_in_place(event_log):
    image = NodeWithScore(
        node=ImageNode(
            image_url="https://example.org/a.png", text="a red picture", id_="img"
        )
    )
    sound = NodeWithScore(
        node=Node(
            audio_resource=MediaResource(url="https://example.org/a.mp3"), id_="snd"
        )
    )
    first, *other_items = nodes_of()
    given_nodes = [image, first, sound, *other_items]
    out = both(DenoisePostprocessor(denoiser=RedSentences()), given_nodes)
    assert ids_of(out) == ["img", "n0", "snd", "n2", "n4"]
    assert out[0] is image
    assert out[2] is sound
    events = [e for e in event_log[0] if isinstance(e, DenoiseEvent)]
    assert [e.passed_through for e in events] == [["img", "snd"]] * 2


def test_documents_and_text_only_nodes_are_denoised():
    document = Document(text=TEXTS[0], id_="d", metadata={"a": 1})
    node = Node(text_resource=MediaResource(text=TEXTS[0]), id_="m")
    out = both(
        DenoisePostprocessor(denoiser=RedSentences()),
        [NodeWithScore(node=n) for n in (document, node)],
    )
    assert [hit.node.get_content() for hit in out] == [
        "The red tower is in Porto. "
    ] * 2
    assert [type(hit.node) for hit in out] == [Document, Node]
    assert document.text == TEXTS[0]


def test_duplicate_ids_keep_apart(denoiser):
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_="same"), score=s)
        for t, s in (("red one", 0.3), ("red two", 0.2))
    ]
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes)
    if len(out) == 2:
        assert ids_of(out) == ["same", "same"]
        assert [hit.node.text.lower() for hit in out] == ["red one", "red two"]
        assert [hit.score for hit in out] == [0.3, 0.2]


def test_no_nodes_give_none(denoiser):
    assert both(DenoisePostprocessor(denoiser=denoiser), []) == []


@settings(max_examples=25)
@given(st.lists(st.text(max_size=60), max_size=6), st.sampled_from(sorted(DENOISERS)))
def test_any_text_survives(texts, name):
    nodes = nodes_of(texts)
    before = frozen(nodes)
    out = both(DenoisePostprocessor(denoiser=DENOISERS[name]()), nodes)
    assert frozen(nodes) == before
    if any(t.strip() for t in texts):
        assert any(hit.node.text.strip() for hit in out), "context was lost"


def test_a_denoiser_that_invents_a_passage_breaks_a_law_and_nothing_is_lost():
    class Invents(Untouched):
        def denoise(self, query, passages):
            return DenoiseResult(
                query,
                (
                    Passage(
                        "made up",
                        "new",
                        0.4,
                        {},
                        (Span("nowhere", 0, 3),),
                    ),
                ),
            )

    out = both(DenoisePostprocessor(denoiser=Invents()), nodes_of())
    assert texts_of(out) == list(TEXTS)
    assert "a passage 'new' that was not given" in record(out[0].node)["fallback"]


@pytest.mark.parametrize("name", [n for n in DENOISERS if n.startswith(("end", "s2a"))])
def test_our_methods_do_their_work_rather_than_fall_back(name):
    out = both(
        DenoisePostprocessor(
            denoiser=DENOISERS[name](), on_error="raise", on_empty="raise"
        ),
        nodes_of(),
    )
    assert ids_of(out) == ["n0", "n2", "n4"], [hit.node.text for hit in out]
    assert all(record(hit.node)["fallback"] is None for hit in out)
