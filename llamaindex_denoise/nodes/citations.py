"""From a cited source back to the user's node and characters, by the node's record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.schema import BaseNode, NodeWithScore

from denoise_core.support.citing import cited_numbers
from llamaindex_denoise.nodes.convert import node_text
from llamaindex_denoise.nodes.records import (
    Ranges,
    document_ranges,
    map_ranges,
    original_text,
    record,
)

# What LlamaIndex's citation engine writes above each source.
_SOURCE_HEADING = re.compile(r"\ASource \d+:\n(.*?)\n?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text comes from.

    Attributes:
        node_id: The user's node.
        ranges: Half-open ``(start, end)`` character ranges of that node's text, or of
            its metadata entry ``metadata_key``.
        document_ranges: The same ranges counted in the node's document; empty if
            unknown.
        is_exact: Whether the text is those characters joined, up to white space
            around it.
        metadata_key: The metadata entry that replaced the node's text, if any.
    """

    node_id: str
    ranges: tuple[tuple[int, int], ...]
    document_ranges: tuple[tuple[int, int], ...] = ()
    is_exact: bool = False
    metadata_key: str | None = None


def origins(
    node: NodeWithScore | BaseNode, originals: Iterable[NodeWithScore | BaseNode] = ()
) -> tuple[Origin, ...]:
    """Return the user's nodes and characters that a source node comes from.

    Args:
        node: A source node, or a chunk of one.
        originals: The user's own nodes, as retrieved or indexed. With them a chunk is
            located exactly; without them the result is all that was kept of the node.
            An original that changed since is ignored. A record that had to leave
            ranges out is searched in the ranges it has.

    Returns:
        One origin, or one per node for text made of several nodes; empty if none of
        our denoisers touched the node.
    """
    base_node = _base_node(node)
    node_record = record(base_node)
    if node_record is None:
        return ()
    if node_record["origin_id"] is None:
        spans_by_node = node_record["spans"].items()
        return tuple(Origin(key, _pairs(spans)) for key, spans in spans_by_node)
    ranges: Ranges = node_record["origin_spans"]
    located_ranges = None
    for original in map(_base_node, originals):
        if original.node_id == node_record["origin_id"]:
            full_text = original_text(node_record, original, node_text(original))
            if full_text is not None:
                located_ranges = _locate(node_text(base_node), ranges, full_text)
            break
    if located_ranges is not None:
        ranges = located_ranges
    return (
        Origin(
            node_id=node_record["origin_id"],
            ranges=_pairs(ranges),
            document_ranges=_pairs(document_ranges(node_record, ranges)),
            is_exact=bool(node_record["origin_extractive"])
            and located_ranges is not None,
            metadata_key=node_record.get("origin_field"),
        ),
    )


def resolve_citations(
    response: RESPONSE_TYPE, originals: Iterable[NodeWithScore | BaseNode] = ()
) -> Mapping[int, tuple[Origin, ...]]:
    """Return the `origins` of each source that the response cites as ``[n]``.

    Keys are in order of first mention; a number without a source is left out. Read a
    streaming response to its end first.
    """
    text = getattr(response, "response", None) or getattr(response, "response_txt", "")
    original_nodes = list(originals)
    sources = response.source_nodes
    numbers = cited_numbers(str(text or ""), len(sources))
    return {n: origins(sources[n - 1], original_nodes) for n in numbers}


def _locate(text: str, kept_ranges: Ranges, full_text: str) -> Ranges | None:
    """The ranges of ``full_text`` that hold ``text``, a part of what was kept of it."""
    kept_text = "".join(full_text[start:end] for start, end in kept_ranges)
    candidates = [text]
    source_heading = _SOURCE_HEADING.match(text)
    if source_heading:
        candidates.append(source_heading.group(1))
    for candidate in map(str.strip, candidates):
        start = kept_text.find(candidate)
        if candidate and start >= 0:
            return map_ranges([[start, start + len(candidate)]], kept_ranges)
    return None


def _base_node(node: NodeWithScore | BaseNode) -> BaseNode:
    return node.node if isinstance(node, NodeWithScore) else node


def _pairs(ranges: Ranges) -> tuple[tuple[int, int], ...]:
    return tuple((start, end) for start, end in ranges)
