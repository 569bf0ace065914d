"""The record on a denoised node: what it says, where it is stored, how large it may be.

It is stored in the node's relationship to its source, under the key ``"denoise"``. No
metadata mode shows that place and the node's hash ignores it, yet every vector store
keeps it, and splitters and the citation engine copy it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    RelatedNodeInfo,
    RelatedNodeType,
    TextNode,
)

from denoise_core import Passage
from denoise_core._frameworks import copy_model
from denoise_core.runtime.record import (
    RECORD_KEY,
    RECORD_VERSION,
    cut_text,
    fit_ranges,
    short_id,
)

SOURCE_RELATION = NodeRelationship.SOURCE

Ranges: TypeAlias = list[list[int]]

_ORIGIN_KEYS = (
    "origin_id",
    "origin_hash",
    "origin_range",
    "origin_field",
    "spans_left_out",
)


def record(node: BaseNode) -> Mapping[str, Any] | None:
    """Return the record of a denoised node as plain JSON; None if it has none.

    * ``op``: the methods, in the order they ran; ``score``: the last one's score;
      ``score_before``: the retrieval score of the user's node; ``coverage``: the share
      of its input that the last method kept
    * ``fallback``: None, or what went wrong and what was done instead
    * ``relevant``, ``note``: `DenoiseResult.relevant` and ``note``, if they say anything
    * ``origin_id``, ``origin_hash``: id and hash of the user's node; the id is None for
      text made of several nodes
    * ``origin_spans``: half-open ``[start, end]`` character ranges of that node's text
      that this node consists of
    * ``origin_field``: the metadata key whose entry replaced that text (a window of
      `MetadataReplacementPostProcessor`); ``origin_hash`` is then the entry's sha256
    * ``origin_extractive``: the text is exactly those characters joined
    * ``origin_range``: ``[start, end]`` of the user's node in its document, if that
      range is as long as its text
    * ``spans``: for text made of several nodes, the ranges by node id
    * ``spans_left_out``: how many ranges did not fit into `RECORD_BYTES`
    """
    source_info = node.relationships.get(SOURCE_RELATION)
    # Most nodes have no source, and a pydantic isinstance check is slow.
    if source_info is None or not isinstance(source_info, RelatedNodeInfo):
        return None
    node_record = source_info.metadata.get(RECORD_KEY)
    if not isinstance(node_record, Mapping) or node_record.get("v") != RECORD_VERSION:
        return None
    if "origin_spans" not in node_record:
        return None
    return node_record


def relationships_with_record(
    node: BaseNode, note: dict[str, Any]
) -> dict[NodeRelationship, RelatedNodeType]:
    """Return the node's relationships with this record, replacing an earlier one."""
    source_info = node.relationships.get(SOURCE_RELATION)
    if source_info is not None and isinstance(source_info, RelatedNodeInfo):
        metadata = {**source_info.metadata, RECORD_KEY: note}
        source_info = copy_model(source_info, {"metadata": metadata})
    else:  # a node without a source is its own source, as LlamaIndex has it
        source_info = RelatedNodeInfo(
            node_id=node.node_id,
            node_type=node.get_type(),
            metadata={RECORD_KEY: note},
        )
    return {**node.relationships, SOURCE_RELATION: source_info}


def build_record(
    step_record: Mapping[str, Any],
    *,
    method: str,
    origin_fields: Mapping[str, Any],
    score: float | None,
) -> dict[str, Any]:
    """Return the record of one denoising step.

    Args:
        step_record: The core's record of the step.
        method: Name of the method.
        origin_fields: What `origin_record` returns; overrides ``op``.
        score: The method's score of the node.
    """
    fallback = step_record["fallback"]
    node_record: dict[str, Any] = {
        "v": RECORD_VERSION,
        "op": method,
        "score": score,
        "fallback": fallback and cut_text(fallback),
        "coverage": step_record["coverage"],
        **origin_fields,
    }
    for name in ("relevant", "note", "question_note"):
        if name in step_record:
            node_record[name] = step_record[name]
    return _limit_size(node_record)


def origin_record(
    node: BaseNode,
    input_passage: Passage,
    step_record: Mapping[str, Any],
    method: str,
    earlier: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the part of a record about the user's node.

    Args:
        node: The node that this step read, and ``input_passage`` its passage.
        input_passage: The passage whose characters ``step_record`` counts.
        step_record: The core's record of the step.
        method: Name of the method.
        earlier: The node's record of the steps before; this step's ranges are then
            mapped through its ranges to the user's node.
    """
    input_text = input_passage.text
    spans: Ranges = step_record["spans"].get(input_passage.id, [])
    is_extract = bool(step_record["extractive"]) and len(step_record["spans"]) == 1
    if earlier is None or earlier["origin_id"] is None:
        return _first_origin(node, input_text, spans, is_extract)
    earlier_spans: Ranges = earlier["origin_spans"]
    is_mappable = _covers_text(earlier, input_text)
    fields = {key: earlier[key] for key in _ORIGIN_KEYS if key in earlier}
    fields["op"] = f"{earlier['op']} > {method}"
    fields["origin_spans"] = earlier_spans
    if is_mappable:
        fields["origin_spans"] = map_ranges(spans, earlier_spans)
    fields["origin_extractive"] = is_extract and is_mappable
    return fields


def _first_origin(
    node: BaseNode, input_text: str, spans: Ranges, is_extract: bool
) -> dict[str, Any]:
    """The origin of a node that has no earlier record: the node itself."""
    fields: dict[str, Any] = {
        "origin_id": node.node_id,
        "origin_hash": node.hash,
        "origin_spans": spans,
        "origin_extractive": is_extract,
    }
    metadata_key = _replacement_key(node, input_text)
    if metadata_key is not None:
        fields["origin_field"] = metadata_key
        text_bytes = input_text.encode("utf-8", "surrogatepass")
        fields["origin_hash"] = hashlib.sha256(text_bytes).hexdigest()
        return fields
    if isinstance(node, TextNode):
        start = node.start_char_idx
        end = node.end_char_idx
        # Offsets of another length belong to a text that was changed since.
        if start is not None and end is not None and end - start == len(input_text):
            fields["origin_range"] = [start, end]
    return fields


def _covers_text(earlier: Mapping[str, Any], input_text: str) -> bool:
    """Whether the earlier ranges, joined, are the text that this step read."""
    if not earlier["origin_extractive"] or earlier.get("spans_left_out"):
        return False
    earlier_spans: Ranges = earlier["origin_spans"]
    length = sum(end - start for start, end in earlier_spans)
    return length == len(input_text)


def map_ranges(spans: Ranges, kept_ranges: Ranges) -> Ranges:
    """Map ranges of a kept text to ranges of the text it was kept from.

    Args:
        spans: Half-open ranges of the kept text.
        kept_ranges: The ranges that were kept, in order.

    >>> map_ranges([[1, 4]], [[10, 12], [20, 25]])
    [[11, 12], [20, 22]]
    """
    mapped_ranges: Ranges = []
    for start, end in spans:
        offset = 0  # of the kept range in the kept text
        for kept_start, kept_end in kept_ranges:
            length = kept_end - kept_start
            overlap_start = max(start, offset)
            overlap_end = min(end, offset + length)
            if overlap_start < overlap_end:
                shift = kept_start - offset
                mapped_ranges.append([overlap_start + shift, overlap_end + shift])
            offset += length
    return mapped_ranges


def _replacement_key(node: BaseNode, input_text: str) -> str | None:
    """The metadata key that `MetadataReplacementPostProcessor` took the text from.

    Its parser hides the window and the original sentence from both modes.
    """
    embed_keys = node.excluded_embed_metadata_keys
    hidden_keys = set(embed_keys).intersection(node.excluded_llm_metadata_keys)
    if not hidden_keys or node.metadata.get("original_text") == input_text:
        return None
    for key, value in node.metadata.items():
        if key in hidden_keys and isinstance(value, str) and value == input_text:
            return key
    return None


def _limit_size(node_record: dict[str, Any]) -> dict[str, Any]:
    """Fit a record into `RECORD_BYTES`: long names are cut, and the last ranges go."""
    node_record["op"] = cut_text(node_record["op"])
    metadata_key = node_record.get("origin_field", "")
    if cut_text(metadata_key) != metadata_key:
        del node_record["origin_field"]
    if node_record["origin_id"] is not None:
        node_record["origin_id"] = short_id(node_record["origin_id"])
    omitted_count = node_record.get("spans_left_out", 0)
    bare_record = {**node_record, "origin_spans": [], "spans": {}}
    if node_record["origin_id"] is None:
        listed, new_omitted = fit_ranges(node_record["spans"], bare_record)
        node_record["spans"] = listed
    else:
        ranges = {"": node_record["origin_spans"]}
        listed, new_omitted = fit_ranges(ranges, bare_record)
        node_record["origin_spans"] = listed.get("", [])
    if omitted_count + new_omitted:
        node_record["spans_left_out"] = omitted_count + new_omitted
    return node_record
