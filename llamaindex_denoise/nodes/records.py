"""The record on a denoised node: what it says and where it is stored.

It is stored in the node's relationship to its source, under the key ``"denoise"``. No
metadata mode shows that place and the node's hash ignores it, yet every vector store
keeps it, and splitters and the citation engine copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    RelatedNodeType,
)

from denoise_core import Passage, Span
from denoise_core._frameworks import copy_model
from denoise_core.runtime.pipeline import SourceMap
from denoise_core.runtime.record import RECORD_KEY, RECORD_VERSION
from denoise_core.spans import merge_spans, passage_spans

SOURCE_RELATION = NodeRelationship.SOURCE

Ranges: TypeAlias = list[list[int]]

_ORIGIN_KEYS = (
    "op",
    "origin_id",
    "origin_hash",
    "origin_range",
    "origin_spans",
    "score_before",
)


def record(node: BaseNode) -> Mapping[str, Any] | None:
    """Return the record of a denoised node as plain JSON; None if it has none.

    * ``op``: the methods, in the order they ran; ``score``: the last one's score;
      ``score_before``: the retrieval score of the user's node; ``coverage``: the share
      of its input that the last method kept
    * ``fallback``: None, or what went wrong and what was done instead
    * ``relevant``, ``note``: `DenoiseResult.relevant` and ``note``, if they say anything
    * ``origin_id``, ``origin_hash``: id and hash of the user's node; the id is None for
      text made of several nodes. The hash is that of the node as this postprocessor got
      it: after `MetadataReplacementPostProcessor` its text is the window
    * ``origin_spans``: half-open ``[start, end]`` character ranges of that node's text
      that this node consists of
    * ``origin_extractive``: the text is exactly those characters joined
    * ``origin_range``: ``[start, end]`` of the user's node in its document, if that
      range is as long as its text
    * ``spans``: for text made of several nodes, the ranges by node id
    """
    source_info = node.relationships.get(SOURCE_RELATION)
    metadata = getattr(source_info, "metadata", None) or {}
    node_record = metadata.get(RECORD_KEY)
    if not isinstance(node_record, Mapping) or node_record.get("v") != RECORD_VERSION:
        return None
    return node_record if "origin_spans" in node_record else None


def relationships_with_record(
    node: BaseNode, note: dict[str, Any]
) -> dict[NodeRelationship, RelatedNodeType]:
    """Return the node's relationships with this record, replacing an earlier one."""
    source_info = node.relationships.get(SOURCE_RELATION)
    if not isinstance(source_info, RelatedNodeInfo):
        # A node without a source is its own source, as LlamaIndex has it.
        source_info = RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type())
    metadata = {**source_info.metadata, RECORD_KEY: note}
    source_info = copy_model(source_info, {"metadata": metadata})
    return {**node.relationships, SOURCE_RELATION: source_info}


def origin_fields(
    scored_node: NodeWithScore, input_passage: Passage, spans: Ranges, is_extract: bool
) -> dict[str, Any]:
    """Return the part of a record about the user's node.

    Ranges of a node that was denoised before are mapped through its record to the
    user's node; ``op`` then names the methods before this one.

    Args:
        scored_node: The node that this step read.
        input_passage: Its passage.
        spans: The ranges of the passage that were kept.
        is_extract: Whether the kept text is those ranges joined.
    """
    node = scored_node.node
    length = len(input_passage.text)
    earlier = record(node)
    if earlier is None or earlier["origin_id"] is None:
        earlier = _whole_origin(scored_node, length)
    fields = {key: earlier[key] for key in _ORIGIN_KEYS if key in earlier}
    earlier_spans = fields["origin_spans"]
    covered_length = sum(end - start for start, end in earlier_spans)
    # Otherwise the text was written, or changed since, and none of its ranges is known.
    is_mappable = earlier["origin_extractive"] and length == covered_length
    if is_mappable:
        kept_spans = passage_spans(node.node_id, earlier_spans)
        source_map = SourceMap(replace(input_passage, spans=kept_spans))
        mapped_spans: list[Span] = []
        for start, end in spans:
            mapped_spans += source_map.map_to_source(Span(node.node_id, start, end))
        merged = merge_spans((span.start, span.end) for span in mapped_spans)
        fields["origin_spans"] = [list(merged_range) for merged_range in merged]
    fields["origin_extractive"] = is_extract and is_mappable
    return fields


def _whole_origin(scored_node: NodeWithScore, length: int) -> dict[str, Any]:
    """The fields of a node of the user's, of which everything is there."""
    node = scored_node.node
    fields = {
        "origin_id": node.node_id,
        "origin_hash": node.hash,
        "origin_spans": [[0, length]],
        "origin_extractive": True,
        "score_before": to_float(scored_node.score),
    }
    start = getattr(node, "start_char_idx", None)
    end = getattr(node, "end_char_idx", None)
    # Offsets of another length belong to a text that was changed since.
    if start is not None and end == start + length:
        fields["origin_range"] = [start, end]
    return fields


def to_float(score: Any) -> float | None:
    """Return a score as a float; a numpy float would not survive model_dump_json."""
    if score is None:
        return None
    return float(score)
