"""What we note about a node: where LlamaIndex keeps it, how large it may be, and the way back to the user's node.

It stands in the node's relationship to its source, under the key ``"denoise"``: no metadata mode shows it and the
hash does not change by it, yet every vector store keeps it, and splitters and the citation engine copy it along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    RelatedNodeInfo,
    RelatedNodeType,
    TextNode,
)

from denoise_core import Passage
from denoise_core._frameworks import copy_model
from denoise_core.runtime.record import RECORD_KEY, RECORD_VERSION
from denoise_core.spans import merge_spans

SOURCE_RELATION = NodeRelationship.SOURCE

Ranges: TypeAlias = list[list[int]]
RecordDetail: TypeAlias = Literal["spans", "full", "none"]

MAX_RECORD_BYTES = 2048
"""A record of ``"spans"`` is at most this long as UTF-8 JSON."""

_TEXT = 200  # characters of a reason


def record(node: BaseNode) -> Mapping[str, Any] | None:
    """What we noted about a node, or None when it was not denoised; JSON-plain.

    * ``op``: the methods, in the order they ran; ``score``: the last one's; ``score_before``: the retrieval
      score of the user's node; ``coverage``: the share of what the last one was given that it kept
    * ``fallback``: None, or what went wrong, and what was done instead
    * ``origin_id``, ``origin_hash``: id and hash of the user's node; None for text made of several nodes
    * ``origin_spans``: half-open ``[start, end]`` pairs of characters of that node's text this one stands for
    * ``origin_field``: where that text is the node's metadata entry of this name and not its own (a window put
      in its place by `MetadataReplacementPostProcessor`); ``origin_hash`` is then the sha256 of that entry
    * ``origin_extractive``: the text is exactly those characters joined
    * ``origin_range``: the node's own ``[start, end]`` in its document, when that range is as long as its text
    * ``spans``: for text made of several nodes, the ranges by node id
    * ``spans_left_out``: how many ranges were left out of a record of ``MOST_BYTES``

    With ``record="full"`` also ``query``, and ``kept`` and ``dropped``: every chunk with its range and score.
    """
    source = node.relationships.get(SOURCE_RELATION)
    if (
        source is None
    ):  # for most; what is no model costs a class of pydantic's much to recognise
        return None
    found = (
        source.metadata.get(RECORD_KEY) if isinstance(source, RelatedNodeInfo) else None
    )
    return (
        found
        if isinstance(found, Mapping)
        and found.get("v") == RECORD_VERSION
        and "origin_spans" in found
        else None
    )


def relationships_with_record(
    node: BaseNode, note: dict[str, Any]
) -> dict[NodeRelationship, RelatedNodeType]:
    """The relationships of a copy of ``node`` that bears this record, in place of an earlier one."""
    source = node.relationships.get(SOURCE_RELATION)
    if source is not None and isinstance(source, RelatedNodeInfo):
        bears = copy_model(source, {"metadata": {**source.metadata, RECORD_KEY: note}})
    else:  # a node that stands for itself: LlamaIndex's own id for that
        bears = RelatedNodeInfo(
            node_id=node.node_id, node_type=node.get_type(), metadata={RECORD_KEY: note}
        )
    return {**node.relationships, SOURCE_RELATION: bears}


def build_record(
    about: Mapping[str, Any],
    *,
    by: str,
    way: Mapping[str, Any],
    score: float | None,
    detail: RecordDetail,
) -> dict[str, Any]:
    """The record of one step: ``about`` is the core's, ``way`` speaks of the user's node (`whole_way`)."""
    fallback = about["fallback"]
    note: dict[str, Any] = {
        "v": RECORD_VERSION,
        "op": by,
        "score": score,
        "fallback": fallback
        if fallback is None or detail == "full"
        else _short(fallback),
        "coverage": about["coverage"],
        **way,
    }
    if "question_note" in about:
        note["question_note"] = _short(about["question_note"])
    if detail == "full":
        return note | {
            name: about[name] for name in ("kept", "dropped", "query") if name in about
        }
    return _bounded(note)


def origin_record(
    node: BaseNode,
    origin: Passage,
    about: Mapping[str, Any],
    op: str,
    earlier: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The part of a record that speaks of the user's node: this step's spans carried through those of its
    ``earlier`` record."""
    text = origin.text
    spans: Ranges = about["spans"].get(origin.id, [])
    extractive = bool(about["extractive"]) and len(about["spans"]) == 1
    if earlier is None or earlier["origin_id"] is None:
        way: dict[str, Any] = {
            "origin_id": node.node_id,
            "origin_hash": node.hash,
            "origin_spans": spans,
            "origin_extractive": extractive,
        }
        field = _field_of(node, text)
        if field is not None:
            return way | {"origin_field": field, "origin_hash": _sha(text)}
        start, end = (
            (node.start_char_idx, node.end_char_idx)
            if isinstance(node, TextNode)
            else (None, None)
        )
        if start is not None and end is not None and end - start == len(text):
            way["origin_range"] = [start, end]
        return way
    inner: Ranges = earlier["origin_spans"]
    exact = (
        bool(earlier["origin_extractive"])
        and sum(b - a for a, b in inner) == len(text)
        and not earlier.get("spans_left_out")
    )
    kept = (
        "origin_id",
        "origin_hash",
        "origin_range",
        "origin_field",
        "spans_left_out",
    )
    return {
        **{key: earlier[key] for key in kept if key in earlier},
        "op": f"{earlier['op']} > {op}",
        "origin_spans": map_ranges(spans, inner) if exact else inner,
        "origin_extractive": extractive and exact,
    }


def map_ranges(spans: Ranges, kept_ranges: Ranges) -> Ranges:
    """Ranges of a kept text, as ranges of the text it was kept from; ``inner``: what was kept, in order.

    >>> through([[1, 4]], [[10, 12], [20, 25]])
    [[11, 12], [20, 22]]
    """
    out: Ranges = []
    for start, end in spans:
        at = 0
        for a, b in kept_ranges:
            low, high = max(start, at), min(end, at + b - a)
            if low < high:
                out.append([a + low - at, a + high - at])
            at += b - a
    return out


def document_ranges(note: Mapping[str, Any], ranges: Ranges) -> Ranges:
    """Ranges of the user's node as ranges of its document; [] when the node's place in it is not known."""
    shift = note["origin_range"][0] if "origin_range" in note else None
    return [] if shift is None else [[shift + a, shift + b] for a, b in ranges]


def original_text(note: Mapping[str, Any], original: BaseNode, text: str) -> str | None:
    """The text that ``origin_spans`` count in, from the user's node; None when that has changed since."""
    field = note.get("origin_field")
    if field is None:
        return text if original.hash == note["origin_hash"] else None
    entry = str(original.metadata.get(field, ""))
    return entry if _sha(entry) == note["origin_hash"] else None


def _field_of(node: BaseNode, text: str) -> str | None:
    """The metadata entry a node's text was taken from: what `MetadataReplacementPostProcessor` leaves behind."""
    if not (node.excluded_embed_metadata_keys and node.excluded_llm_metadata_keys):
        return None
    hidden = {*node.excluded_embed_metadata_keys} & {*node.excluded_llm_metadata_keys}
    whole = (
        k
        for k, v in node.metadata.items()
        if k in hidden and isinstance(v, str) and v == text
    )
    named = next(whole, None)
    own = node.metadata.get("original_text")
    return named if named not in (None, "original_text") and own != text else None


def _bounded(note: dict[str, Any]) -> dict[str, Any]:
    """At most `MOST_BYTES`: ranges that touch are one, an id too long is its hash, the last ranges go first."""
    note["origin_spans"] = merge_ranges(note["origin_spans"])
    if "spans" in note:
        note["spans"] = {i: merge_ranges(ranges) for i, ranges in note["spans"].items()}
    words = (
        len(note["origin_id"] or "")
        + len(note.get("origin_field", ""))
        + len(note["op"])
    )
    if "spans" not in note and len(note["origin_spans"]) < 40 and words < 100:
        return note  # too little to be weighed
    if note["origin_id"] is not None and _weight(note["origin_id"]) > _TEXT:
        note["origin_id"] = f"sha256:{_sha(note['origin_id'])}"
    note["op"] = (
        note["op"]
        if len(note["op"]) <= 2 * _TEXT
        else "... " + note["op"][-2 * _TEXT :]
    )
    left_out = int(note.get("spans_left_out", 0))
    while _weight(note) > MAX_RECORD_BYTES:
        if note["origin_spans"]:
            fewer = max(1, len(note["origin_spans"]) // 8)
            note["origin_spans"] = note["origin_spans"][:-fewer]
            left_out += fewer
        elif note.get("spans"):
            left_out += len(note["spans"].popitem()[1])
        else:
            note.pop("origin_field", None)
            break
        note["spans_left_out"] = left_out
    return note


def merge_ranges(ranges: Ranges) -> Ranges:
    """Ranges that follow one another without a gap, as one."""
    return [
        [start, end]
        for start, end in merge_spans((start, end) for start, end in ranges)
    ]


def _weight(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
