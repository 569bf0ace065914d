"""The contract of every adapter, over every denoiser: what goes in comes back true, in sync and async."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
)
from llamaindex_denoisers import (
    DENOISERS,
    TEXTS,
    RedSentences,
    Untouched,
    frozen,
    ids_of,
    kept_characters,
    nodes_of,
    processed,
    scored,
)

from llamaindex_denoise import record
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
    out = processed(denoiser, nodes)
    assert frozen(nodes) == before
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
        assert record(hit.node)
        shown_text = hit.node.get_content(MetadataMode.ALL)
        assert not re.search("denoise|origin", shown_text), (
            "it must stay out of prompts"
        )
        if hit.node.node_id in originals:
            assert without_ours(hit.node) == without_ours(origin.node)
            assert hit.node.metadata["page"] == origin.node.metadata["page"]


def test_every_node_says_where_its_text_stands(denoiser):
    nodes = nodes_of()
    source = {hit.node.node_id: hit.node for hit in nodes}
    for n in processed(denoiser, nodes):
        note = record(n.node)
        assert json.loads(json.dumps(note)) == note, "the record is not plain JSON"
        if n.node.node_id in source:
            assert note["origin_hash"] == source[n.node.node_id].hash
        if note["origin_extractive"]:
            origin = source[note["origin_id"]]
            assert n.node.text == kept_characters(origin.text, note)
            place = [origin.start_char_idx, origin.end_char_idx]
            assert note["origin_range"] == place


def test_changed_nodes_lose_what_is_no_longer_true():
    out = processed(RedSentences(), nodes_of())
    first, _, _ = out
    assert first.node.text == "The red tower is in Porto. "
    assert first.node.embedding is None
    assert first.node.start_char_idx == 0
    assert first.node.end_char_idx == 27
    assert out[-1].node.embedding == [0.0, 1.0]  # kept whole
    (gap,) = processed(RedSentences(), nodes_of(["A red cat. Ok so. A red dog."]))
    assert gap.node.start_char_idx is None
    assert gap.node.end_char_idx is None
    assert record(gap.node)["origin_spans"] == [[0, 11], [18, 28]]


def test_metadata_of_the_same_name_is_the_users():
    hit = scored("red", id_="x", metadata={"denoise": {"mine": 1}})
    (out,) = processed(Untouched(), [hit])
    assert out.node.metadata == hit.node.metadata == {"denoise": {"mine": 1}}
    assert record(out.node)["origin_id"] == "x"
    assert record(hit.node) is None


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
    out = processed(RedSentences(), given_nodes)
    assert ids_of(out) == ["img", "n0", "snd", "n2", "n4"]
    assert out[0] is image
    assert out[2] is sound
    events = event_log.of(DenoiseEvent)
    assert [event.passed_through for event in events] == [["img", "snd"]] * 2


def test_events_say_what_was_kept_without_the_text(event_log, denoiser):
    out = processed(denoiser, nodes_of())
    events = event_log.of(DenoiseEvent)
    assert len(events) == 2
    for event in events:
        assert len(event.summary["passages"]) == len(out)
        assert event.summary["given"] == ["n0", "n1", "n2", "n3", "n4"]
        assert "Porto" not in event.model_dump_json()
        assert event.span_id, "the event belongs to no span"


def test_documents_and_text_only_nodes_are_denoised():
    document = Document(text=TEXTS[0], id_="d", metadata={"a": 1})
    node = Node(text_resource=MediaResource(text=TEXTS[0]), id_="m")
    hits = [NodeWithScore(node=n) for n in (document, node)]
    out = processed(RedSentences(), hits)
    for hit in out:
        assert hit.node.get_content() == "The red tower is in Porto. "
    assert [type(hit.node) for hit in out] == [Document, Node]
    assert document.text == TEXTS[0]


def test_duplicate_ids_keep_apart(denoiser):
    nodes = [scored("red one", 0.3, id_="same"), scored("red two", 0.2, id_="same")]
    out = processed(denoiser, nodes)
    if len(out) == 2:
        assert ids_of(out) == ["same", "same"]
        assert [hit.node.text.lower() for hit in out] == ["red one", "red two"]
        assert [hit.score for hit in out] == [0.3, 0.2]


def test_no_nodes_give_none(denoiser):
    assert processed(denoiser, []) == []


@settings(max_examples=25)
@given(st.lists(st.text(max_size=60), max_size=6), st.sampled_from(sorted(DENOISERS)))
def test_any_text_survives(texts, name):
    nodes = nodes_of(texts)
    before = frozen(nodes)
    out = processed(DENOISERS[name](), nodes)
    assert frozen(nodes) == before
    if any(t.strip() for t in texts):
        assert any(hit.node.text.strip() for hit in out), "context was lost"
