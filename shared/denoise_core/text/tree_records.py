"""Records of YAML and XML, found by their parsers: list items and repeated elements.

A record is whole lines of YAML, or an element of XML from its opening to its closing
tag, so what is left without it can be parsed. Everything else is structure. Where YAML
without records is long, it is cut at its keys, and their parents' lines are context.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Any
from xml.parsers import expat

from denoise_core.spans import Range, Ranges, RangeTuple, clip_spans
from denoise_core.text.markup import INLINE_TAGS, detect_markup, strip_tags
from denoise_core.text.text_chunk import (
    MAX_CHUNK_CHARACTERS,
    TextChunk,
    fill_gaps,
    line_at,
)

try:
    yaml: Any = import_module("yaml")
except ModuleNotFoundError:  # the adapters' frameworks bring PyYAML, the core does not
    yaml = None

MAX_PARSED_CHARACTERS = 400_000
"""A longer text is not parsed as YAML, which takes a second for so many characters."""

_MAX_DEPTH = 12  # levels of nesting that are cut
_MIN_LINES = 6
_MIN_YAML_LINES = 0.8  # of the lines look like YAML before it is parsed
_DOCUMENT_MARK = "---"
_BLOCK_MARKS = ("|", "|-", "|+", ">", ">-", ">+")


def detect_tree_format(text: str) -> str:
    """Return ``"xml"``, ``"yaml"``, or ``""`` for neither."""
    text_head = text.lstrip()[:200].lower()
    if text_head.startswith("<"):
        is_page = text_head.startswith(("<!doctype html", "<html"))
        root = None if is_page else parse_xml(text)
        if root is None or (_is_html(root) and detect_markup(text)):
            return ""
        return "xml"
    if _looks_like_yaml(text) and load_yaml_nodes(text) is not None:
        return "yaml"
    return ""


def _is_html(root: XmlElement) -> bool:
    """Whether an element, and most of those in it, are blocks of HTML with content.

    Pages, and above all parts of them, may be well-formed XML. The names of blocks are
    those that CommonMark lists. A block holds HTML too: ``<li><price>5</price></li>``
    is of another vocabulary.
    """
    from markdown_it.common.html_blocks import block_names

    html_names = {*block_names, *INLINE_TAGS}
    block_count = 0
    for child in root.children:
        inner_html = [e for e in child.children if e.name.lower() in html_names]
        has_content = child.has_text or bool(inner_html)
        if has_content and 2 * len(inner_html) >= len(child.children):
            block_count += child.name.lower() in block_names
    return root.name.lower() in block_names and 2 * block_count > len(root.children)


# --- YAML


def _looks_like_yaml(text: str) -> bool:
    """Whether most lines are a key or a list item, as they rarely are in prose."""
    if len(text) > MAX_PARSED_CHARACTERS:
        return False
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < _MIN_LINES or lines[0].lstrip().startswith(("{", "[")):
        return False
    line_count = 0
    yaml_lines = 0
    block_indent = sys.maxsize  # of the line that opens a block of free text
    for line in lines:
        content = line.strip()
        indent = line.index(content)
        if indent > block_indent:
            continue
        line_count += 1
        yaml_lines += _is_yaml_line(content)
        block_indent = sys.maxsize
        if content.endswith(_BLOCK_MARKS):
            block_indent = indent
    return yaml_lines >= _MIN_YAML_LINES * line_count


def _is_yaml_line(line: str) -> bool:
    """Whether a line without outer white space is a key, an item or a comment."""
    if line.startswith(("#", "---")):
        return True
    has_key = ": " in line or line.endswith(":")
    if not has_key:
        return False
    entry = line.removeprefix("- ")
    entry = entry.removesuffix(":")
    key, _, _ = entry.partition(": ")
    # A colon or a dash inside: a log's time, or prose.
    if ":" in key or " - " in key:
        return False
    return 0 < len(key) <= 40


def load_yaml_nodes(text: str) -> list[Any] | None:
    """Return the root nodes of the documents of a YAML text, with their positions.

    None for a text that is not valid or has an alias, and without PyYAML. An alias
    makes nodes share parts, or contain themselves, so they would not be a tree. Keys
    that repeat are not valid, although PyYAML reads them: speakers repeat in a chat.
    Nothing is constructed from the nodes, so tags in the text have no effect.
    """
    if yaml is None:
        return None
    # In C where PyYAML was built with it.
    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if "*" in text and _has_alias(text, safe_loader):
            return None
        nodes = list(yaml.compose_all(text, Loader=safe_loader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not nodes or not _are_collections(nodes):
        return None
    if any(map(_repeats_key, nodes)):
        return None
    return nodes


def _has_alias(text: str, loader: Any) -> bool:
    events = yaml.parse(text, Loader=loader)
    return any(isinstance(event, yaml.AliasEvent) for event in events)


def _repeats_key(node: Any) -> bool:
    """Whether a mapping has a key twice."""
    if not isinstance(node, yaml.MappingNode):
        return False
    keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    return len(set(keys)) < len(keys)


def _are_collections(nodes: Iterable[Any]) -> bool:
    return all(isinstance(node, yaml.CollectionNode) for node in nodes)


def count_empty_values(text: str) -> int | None:
    """Return the number of fields without a value outside of lists of objects.

    None for a text that is no YAML.
    """
    roots = load_yaml_nodes(text)
    if roots is None:
        return None
    count = 0
    for node, _ in _outer_nodes(roots):
        if isinstance(node, yaml.ScalarNode) and not node.value and not node.style:
            count += 1
    return count


def _outer_nodes(roots: Iterable[Any]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the nodes that are reached through mappings alone, and no mapping.

    With each come the nodes of the keys that lead to it.
    """
    pending: list[tuple[Any, tuple[Any, ...]]] = [(root, ()) for root in roots]
    while pending:
        node, keys = pending.pop()
        if not isinstance(node, yaml.MappingNode):
            yield node, keys
            continue
        for key, member in node.value:
            pending.append((member, (*keys, key)))


def yaml_chunks(text: str) -> list[TextChunk] | None:
    """Chunk a YAML text: one chunk for each item of its outermost lists of objects.

    What is around them is structure, cut at its keys if it is long.
    """
    roots = load_yaml_nodes(text) or []
    items = sorted(_find_yaml_items(text, roots))
    entries = [(root, root) for root in roots]
    parts = list(_yaml_parts(text, (0, len(text)), entries, _DOCUMENT_MARK, ()))
    tiled_chunks = []
    for chunk in fill_gaps(text, items):
        if not chunk.is_structural:
            tiled_chunks.append(chunk)
            continue
        pieces = [chunk]
        if chunk.length > MAX_CHUNK_CHARACTERS:
            pieces = _clip_chunks(parts, chunk.span)
        for piece in pieces:
            raw_text = piece.text_of(text)
            structural_piece = piece._replace(
                display_text=raw_text if _has_yaml_value(raw_text) else "",
                is_structural=True,
                is_atomic=True,
            )
            tiled_chunks.append(structural_piece)
    return tiled_chunks


def _clip_chunks(chunks: Iterable[TextChunk], span: Range) -> list[TextChunk]:
    """Return the parts of these chunks that are inside a range."""
    clipped_chunks = []
    for chunk in chunks:
        for start, end in clip_spans([chunk.span], *span):
            clipped_chunks.append(chunk._replace(start=start, end=end))
    return clipped_chunks


def _yaml_parts(
    text: str,
    span: Range,
    entries: Sequence[tuple[Any, Any]],
    mark: str,
    context_spans: RangeTuple,
) -> Iterator[TextChunk]:
    """Yield the parts that tile a value: one for each of its entries if it is long.

    Args:
        text: The whole text.
        span: The lines of the value and of its key.
        entries: The first node and the value of each key, list item or document.
        mark: What begins an entry: ``""`` before a key, ``"-"``, or ``"---"``.
        context_spans: The lines of the keys above.
    """
    start, end = span
    part_starts = [
        _yaml_entry_start(text, first_node.start_mark, mark)
        for first_node, _ in entries
    ]
    bounds = [*part_starts, end]
    is_long = end - start > MAX_CHUNK_CHARACTERS
    is_deep = len(context_spans) >= _MAX_DEPTH
    has_own_lines = bounds[0] >= start and bounds == sorted(set(bounds))
    if is_deep or not is_long or not has_own_lines:
        yield TextChunk(start, end, context_spans)
        return
    head = TextChunk(start, bounds[0], context_spans)
    if head.length:
        yield head
        context_spans = (*context_spans, head.span)
    for (_, value), part in zip(entries, pairwise(bounds), strict=True):
        mark = ""
        inner_entries: Sequence[tuple[Any, Any]] = ()
        if isinstance(value, yaml.MappingNode):
            inner_entries = value.value
        elif isinstance(value, yaml.SequenceNode):
            mark = "-"
            inner_entries = [(item, item) for item in value.value]
        yield from _yaml_parts(text, part, inner_entries, mark, context_spans)


def _yaml_entry_start(text: str, node_mark: Any, mark: str) -> int:
    """Return where the lines of an entry begin; -1 if it shares its first line.

    Comments right above it are part of it, and so is the mark of a document.
    """
    start, _ = line_at(text, node_mark.index)
    line_start = text[start : node_mark.index].strip()
    starts_above = [" " * node_mark.column + "#"]
    if mark == _DOCUMENT_MARK:
        starts_above.append(mark)
    elif line_start != mark:
        return -1
    while start:
        line_above, _ = line_at(text, start - 1)
        if not text.startswith(tuple(starts_above), line_above):
            break
        start = line_above
    return start


def _has_yaml_value(text: str) -> bool:
    """Whether a line is more than a key, a comment or a mark between documents."""
    for line in text.split("\n"):
        content = line.strip()
        if content and not content.startswith(("#", "---")) and content[-1] != ":":
            return True
    return False


def _find_yaml_items(text: str, roots: Sequence[Any]) -> Iterator[TextChunk]:
    """Yield each item of the outermost lists of objects, under the lines of its keys."""
    for node, keys in _outer_nodes(roots):
        if not isinstance(node, yaml.SequenceNode) or node.flow_style:
            continue
        has_items = len(node.value) > 1
        if has_items and _are_collections(node.value):
            key_lines = tuple(line_at(text, key.start_mark.index) for key in keys)
            for span in _yaml_item_spans(text, node):
                yield TextChunk(*span, key_lines, is_atomic=True)


def _yaml_item_spans(text: str, node: Any) -> Ranges:
    """Return the lines of each item of a list; empty if two items share a line."""
    bounds = [line_at(text, item.start_mark.index)[0] for item in node.value]
    end = len(text)
    if text[node.end_mark.index :].strip():
        end = _yaml_entry_start(text, node.end_mark, "")
    bounds.append(end)
    if bounds != sorted(set(bounds)):
        return []
    return list(pairwise(bounds))


# --- XML


class _RefusedDeclaration(ValueError):
    """A document type, which may define entities that grow without bound."""


@dataclass(slots=True)
class XmlElement:
    """An element: its name, its range in the UTF-8 text, and its elements."""

    name: str
    start: int
    end: int = 0
    has_attributes: bool = False
    has_text: bool = False
    children: list[XmlElement] = field(default_factory=list)


def parse_xml(text: str) -> XmlElement | None:
    """Return the root element of well-formed XML; None for any other text."""
    parser = expat.ParserCreate("utf-8")
    root = XmlElement("", 0)
    open_elements = [root]

    def start_element(name: str, attributes: dict[str, str]) -> None:
        element = XmlElement(name, parser.CurrentByteIndex)
        element.has_attributes = bool(attributes)
        parent = open_elements[-1]
        parent.children.append(element)
        open_elements.append(element)

    def end_element(name: str) -> None:
        element = open_elements.pop()
        # The parser is before a closing tag, and after an element that is one tag.
        element.end = parser.CurrentByteIndex
        is_empty = not element.children and not element.has_text
        if not is_empty or source[element.end - 2 : element.end] != b"/>":
            tag_end = source.find(b">", element.end)
            element.end = tag_end + 1

    def add_text(content: str) -> None:
        open_elements[-1].has_text = True

    def refuse_document_type(*arguments: Any) -> None:
        raise _RefusedDeclaration

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse_document_type
    source = text.strip().encode("utf-8", "replace")
    try:
        parser.Parse(source, True)
    except (expat.ExpatError, _RefusedDeclaration):
        return None
    return root.children[0]


def find_xml_records(text: str) -> Ranges | None:
    """Return the ranges of the repeated elements of well-formed XML.

    None for a text that is not well-formed; empty for XML without such elements.
    """
    root = parse_xml(text)
    if root is None:
        return None
    source = text.strip().encode("utf-8", "replace")
    records = _collect_xml_records(root)
    spans = []
    end = len(text) - len(text.lstrip())
    previous_end = 0
    for record in records:
        source_before = source[previous_end : record.start]
        record_source = source[record.start : record.end]
        start = end + _count_characters(source_before)
        end = start + _count_characters(record_source)
        spans.append((start, end))
        previous_end = record.end
    return spans


def _count_characters(source: bytes) -> int:
    text = source.decode("utf-8", "replace")
    return len(text)


def _collect_xml_records(root: XmlElement) -> list[XmlElement]:
    """Return the children of the outermost elements that repeat one name, in order."""
    records = []
    pending = [root]
    while pending:
        element = pending.pop()
        names = Counter(child.name for child in element.children)
        for child in element.children:
            has_parts = bool(child.children) or child.has_attributes
            if has_parts and names[child.name] > 2:
                records.append(child)
            else:
                pending.append(child)
    return sorted(records, key=lambda record: record.start)


def xml_chunks(text: str) -> list[TextChunk] | None:
    """Chunk XML: one chunk for each record, and structure around them."""
    record_spans = find_xml_records(text)
    if not record_spans:
        return [TextChunk(0, len(text), is_atomic=True)]
    records = [TextChunk(*span, is_atomic=True) for span in record_spans]
    tiled_chunks = []
    for chunk in fill_gaps(text, records):
        spaced_text = chunk.text_of(text).replace("><", "> <")
        shown_text = strip_tags(spaced_text).strip()
        tiled_chunks.append(chunk._replace(display_text=shown_text))
    return tiled_chunks
