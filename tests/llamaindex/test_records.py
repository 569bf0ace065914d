"""What is noted about a node: bounded, out of every prompt, true about the characters it names."""

import json

import pytest
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    TextNode,
)
from llamaindex_denoisers import Fails, RedSentences, Untouched, both, nodes_of

from denoise_core import DenoiseResult
from denoise_core.runtime.record import RECORD_BYTES
from denoise_core.text.chunk import extract_spans
from denoise_core.types import Span
from llamaindex_denoise import DenoisePostprocessor, record
from llamaindex_denoise.nodes.citations import origins


def weight(note):
    return len(json.dumps(note, ensure_ascii=False).encode())


class EveryOther(Untouched):
    """Keeps every other character: as many ranges as there can be."""

    def denoise(self, query, passages):
        parts = [
            extract_spans(p, [Span(p.id, i, i + 1) for i in range(0, len(p.text), 2)])
            for p in passages
        ]
        return DenoiseResult(query, tuple(p for p in parts if p))


class AllAsOne(Untouched):
    def denoise(self, query, passages):
        return DenoiseResult(
            query,
            tuple(passages),
            fallback="; ".join(f"{passage.id}: model is down" for passage in passages),
        )


@pytest.mark.parametrize(
    "denoiser",
    [EveryOther(), AllAsOne(), RedSentences(), Fails()],
    ids=lambda d: type(d).__name__,
)
@pytest.mark.parametrize("long_id", [False, True])
def test_a_record_is_at_most_two_kilobytes(denoiser, long_id):
    nodes = nodes_of(["The red tower. It is old. " * 400] * 30)
    for i, n in enumerate(nodes):
        n.node.id_ = f"{i}-" + "é" * (3000 if long_id else 1)
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes)
    assert out
    for hit in out:
        assert weight(record(hit.node)) <= RECORD_BYTES


def test_ranges_left_out_are_counted_and_nothing_is_called_exact():
    (out,) = both(
        DenoisePostprocessor(denoiser=EveryOther()), nodes_of(["abcdefgh" * 200])
    )
    note = record(out.node)
    assert note["spans_left_out"] == 800 - len(note["origin_spans"])
    (origin,) = origins(out, nodes_of(["abcdefgh" * 200]))
    assert not origin.is_exact


def test_none_leaves_no_record():
    (bare_node, *_) = both(
        DenoisePostprocessor(denoiser=RedSentences(), record="none"), nodes_of()
    )
    assert record(bare_node.node) is None


def test_no_metadata_mode_and_no_chunk_of_the_node_shows_the_record():
    node = TextNode(text="The red tower. " * 30, id_="x", metadata={"title": "Towers"})
    (out,) = both(
        DenoisePostprocessor(denoiser=Untouched()), [NodeWithScore(node=node)]
    )
    assert out.node.get_content(MetadataMode.ALL) == node.get_content(MetadataMode.ALL)
    assert out.node.hash == node.hash, "a docstore would take it for another node"
    chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0)([out.node])
    assert len(chunks) > 1
    for chunk in chunks:
        assert "origin" not in chunk.get_content(MetadataMode.ALL)
        assert chunk.get_content(MetadataMode.NONE) in node.text
        (origin,) = origins(chunk, [node])
        assert origin.is_exact
        assert "".join(node.text[a:b] for a, b in origin.ranges).strip() == chunk.text


def test_a_node_without_a_document_becomes_its_own_source_and_the_others_keep_theirs():
    (out,) = both(
        DenoisePostprocessor(denoiser=Untouched()),
        [NodeWithScore(node=TextNode(text="red", id_="x"))],
    )
    assert out.node.ref_doc_id == "x"
    (first, *_) = both(DenoisePostprocessor(denoiser=Untouched()), nodes_of())
    source = first.node.relationships[NodeRelationship.SOURCE]
    assert (source.node_id, source.metadata["title"]) == ("doc", "Towers")


SENTENCES = "A blue cat sits here. The red tower is in Porto. Bread is cheap there. Ships are long."


def test_after_metadata_replacement_spans_name_characters_of_the_window():
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    stored = parser.get_nodes_from_documents([Document(text=SENTENCES, id_="doc")])
    results = [
        NodeWithScore(node=stored[2].model_copy(), score=0.9)
    ]  # "Bread is cheap there."
    window = MetadataReplacementPostProcessor(
        target_metadata_key="window"
    ).postprocess_nodes(results)
    (out,) = both(DenoisePostprocessor(denoiser=RedSentences()), window)
    note = record(out.node)
    assert note["origin_id"] == stored[2].node_id
    assert note["origin_field"] == "window"
    (origin,) = origins(out, stored)
    assert origin.metadata_key == "window"
    assert origin.is_exact
    entry = stored[2].metadata["window"]
    assert (
        "".join(entry[a:b] for a, b in origin.ranges).strip() == out.node.text.strip()
    )
    assert origin.document_ranges == (), (
        "the window's place in the document is not known"
    )
    assert (out.node.start_char_idx, out.node.end_char_idx) == (None, None)
    changed = stored[2].model_copy(update={"metadata": {"window": "other"}})
    assert not origins(out, [changed])[0].is_exact
