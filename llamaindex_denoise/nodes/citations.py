"""From a cited source back to the user's own node and characters, by the record that its copies carry along."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.schema import BaseNode, NodeWithScore

from denoise_core.runtime.record import RECORD_KEY
from denoise_core.support.citing import cited_numbers
from llamaindex_denoise.nodes.convert import node_text
from llamaindex_denoise.nodes.records import (
    Ranges,
    document_ranges,
    map_ranges,
    original_text,
    record,
)

if TYPE_CHECKING:
    from llama_index.core.base.llms.types import CitationBlock

_HEADING = re.compile(r"\ASource \d+:\n(.*?)\n?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text comes from.

    ``ranges`` are half-open ``(start, end)`` pairs of characters of the node ``node_id``, or of its metadata entry
    ``field`` where that took the place of its text; ``document_ranges`` the same counted in the node's document,
    empty when that is not known. With ``exact`` the text is those characters joined, white space around it aside.
    """

    node_id: str
    ranges: tuple[tuple[int, int], ...]
    document_ranges: tuple[tuple[int, int], ...] = ()
    is_exact: bool = False
    metadata_key: str | None = None


def origins(
    node: NodeWithScore | BaseNode, originals: Iterable[NodeWithScore | BaseNode] = ()
) -> tuple[Origin, ...]:
    """The user's nodes and characters behind a source node; empty when no denoiser of ours touched it.

    ``originals`` are the user's own nodes (those that were retrieved, or the index's). With them a chunk of a
    node is found exactly; without, the answer is everything that was kept of that node. An original that was
    changed since is not used, and a record that had to leave ranges out finds what lies in those it has.
    """
    plain = _plain(node)
    note = record(plain)
    if note is None:
        return ()
    if note["origin_id"] is None:
        return tuple(Origin(i, _pairs(spans)) for i, spans in note["spans"].items())
    kept: Ranges = note["origin_spans"]
    original = next(
        (n for n in map(_plain, originals) if n.node_id == note["origin_id"]), None
    )
    whole = (
        original_text(note, original, node_text(original))
        if original is not None
        else None
    )
    found = _find(node_text(plain), kept, whole) if whole is not None else None
    ranges = kept if found is None else found
    exact = bool(note["origin_extractive"]) and found is not None
    in_document = _pairs(document_ranges(note, ranges))
    return (
        Origin(
            note["origin_id"],
            _pairs(ranges),
            in_document,
            exact,
            note.get("origin_field"),
        ),
    )


def resolve_citations(
    response: RESPONSE_TYPE, originals: Iterable[NodeWithScore | BaseNode] = ()
) -> Mapping[int, tuple[Origin, ...]]:
    """For each ``[n]`` in the response's text, in order of first mention, the `origins` of its n-th source.

    A number that names no source is left out. A stream must have been read first.
    """
    text = str(
        getattr(response, "response", None)
        or getattr(response, "response_txt", None)
        or ""
    )
    known = list(originals)
    sources = response.source_nodes
    return {
        n: origins(sources[n - 1], known) for n in cited_numbers(text, len(sources))
    }


def citation_blocks(response: Any) -> list[CitationBlock]:
    """What each supported claim of a checked answer rests on, for reading: models take no such blocks back.

    ``response`` is an engine's, a chat's, an agent's, or a stream that was read. ``source`` is the id of the node
    (or tool call), ``additional_location_info`` the quote's range there, and the claim's in the answer.
    """
    from llama_index.core.base.llms.types import CitationBlock, TextBlock

    about = {
        n.node.node_id: n.node.metadata
        for n in getattr(response, "source_nodes", None) or []
    }
    out: list[CitationBlock] = []
    for claim in ((response.metadata or {}).get(RECORD_KEY) or {}).get("claims", ()):
        for quote in claim["quotes"] if claim["supported"] else ():
            named, source = about.get(quote["id"], {}), quote["id"]
            title = str(named.get("title") or named.get("file_name") or source)
            of_claim = {"claim_start": claim["start"], "claim_end": claim["end"]}
            where = {"start": quote["start"], "end": quote["end"], **of_claim}
            said = TextBlock(text=quote["text"])
            out.append(
                CitationBlock(
                    cited_content=said,
                    source=source,
                    title=title,
                    additional_location_info=where,
                )
            )
    return out


def _find(text: str, kept: Ranges, original: str) -> Ranges | None:
    """The ranges of ``original`` that hold ``text``, a part of what was kept of it."""
    whole = "".join(original[a:b] for a, b in kept)
    headed = _HEADING.match(text)
    for wanted in (text, headed.group(1)) if headed else (text,):
        wanted = wanted.strip()
        at = whole.find(wanted)
        if wanted and at >= 0:
            return map_ranges([[at, at + len(wanted)]], kept)
    return None


def _plain(node: NodeWithScore | BaseNode) -> BaseNode:
    return node.node if isinstance(node, NodeWithScore) else node


def _pairs(ranges: Ranges) -> tuple[tuple[int, int], ...]:
    return tuple((a, b) for a, b in ranges)
