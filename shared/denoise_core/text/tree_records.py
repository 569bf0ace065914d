"""Records of YAML and XML, found by their parsers: list items and repeated elements.

A record is whole lines of YAML, or an element of XML from its opening to its closing
tag, so what is left without it can be parsed. Everything else is structure.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from xml.parsers import expat

from denoise_core.spans import Range, Ranges
from denoise_core.text.json_spans import BYTE_ORDER_MARK
from denoise_core.text.markup import strip_tags
from denoise_core.text.text_chunk import TextChunk, fill_gaps, line_at

try:
    yaml: Any = import_module("yaml")
except ModuleNotFoundError:  # the adapters' frameworks bring PyYAML, the core does not
    yaml = None

MAX_PARSED_CHARACTERS = 400_000
"""A longer text is not parsed as YAML, which takes a second for so many characters."""

_MIN_LINES = 6
_MIN_YAML_LINES = 0.8  # of the lines look like YAML before it is parsed
_BLOCK_MARKS = ("|", "|-", "|+", ">", ">-", ">+")


def detect_tree_format(text: str) -> str:
    """Return ``"xml"``, ``"yaml"``, or ``""`` for neither."""
    text_head = text.removeprefix(BYTE_ORDER_MARK).lstrip()[:200]
    text_head = text_head.lower()
    if text_head.startswith("<"):
        is_page = text_head.startswith(("<!doctype html", "<html"))
        if is_page:
            return ""
        return "" if parse_xml(text) is None else "xml"
    if _looks_like_yaml(text) and load_yaml_nodes(text) is not None:
        return "yaml"
    return ""


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
    for node in _outer_nodes(roots):
        if isinstance(node, yaml.ScalarNode) and not node.value and not node.style:
            count += 1
    return count


def _outer_nodes(roots: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes that are reached through mappings alone, and no mapping."""
    pending = list(roots)
    while pending:
        node = pending.pop()
        if not isinstance(node, yaml.MappingNode):
            yield node
            continue
        for _, member in node.value:
            pending.append(member)


def yaml_chunks(text: str) -> list[TextChunk] | None:
    """Chunk a YAML text: one chunk for each item of its outermost lists of objects."""
    item_spans = _find_yaml_items(text)
    if not item_spans:
        return [TextChunk(0, len(text), is_atomic=True)]
    chunks = []
    for start, end in sorted(item_spans):
        chunk = TextChunk(start, end, is_atomic=True)
        chunks.append(chunk)
    return fill_gaps(text, chunks)


def _find_yaml_items(text: str) -> Ranges:
    """Return the lines of each item of the outermost lists of objects, in any order."""
    item_spans: Ranges = []
    for node in _outer_nodes(load_yaml_nodes(text) or ()):
        if not isinstance(node, yaml.SequenceNode) or node.flow_style:
            continue
        has_items = len(node.value) > 1
        if has_items and _are_collections(node.value):
            item_spans += _yaml_item_spans(text, node)
    return item_spans


def _yaml_item_spans(text: str, node: Any) -> Ranges:
    """Return the lines of each item of a list; empty if two items share a line."""
    item_starts = []
    for item in node.value:
        item_start, _ = line_at(text, item.start_mark.index)
        item_starts.append(item_start)
    node_end = node.end_mark.index
    end, _ = line_at(text, node_end)
    text_after = text[node_end:]
    if not text_after.strip():
        end = len(text)
    line_starts = sorted(set(item_starts))
    if item_starts != line_starts or item_starts[-1] >= end:
        return []
    item_ends = [*item_starts[1:], end]
    return list(zip(item_starts, item_ends, strict=True))


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
        # The parser is before the closing tag; of an empty element, before it.
        element.end = _tag_end(source, parser.CurrentByteIndex)

    def refuse_document_type(*arguments: Any) -> None:
        raise _RefusedDeclaration

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.StartDoctypeDeclHandler = refuse_document_type
    source = text.strip().encode("utf-8", "replace")
    try:
        parser.Parse(source, True)
    except (expat.ExpatError, _RefusedDeclaration):
        return None
    return root.children[0]


def _tag_end(source: bytes, position: int) -> int:
    """Return the position after the tag that begins here; quotes may hold a bracket."""
    open_quote = 0
    for n in range(position, len(source)):
        character = source[n]
        if open_quote:
            open_quote *= character != open_quote
        elif character in b"\"'":
            open_quote = character
        elif character == 62:  # ">"
            return n + 1
    return len(source)


def find_xml_records(text: str) -> Ranges | None:
    """Return the ranges of the repeated elements of well-formed XML.

    None for a text that is not well-formed; empty for XML without such elements.
    """
    root = parse_xml(text)
    if root is None:
        return None
    source = text.strip().encode("utf-8", "replace")
    records = _collect_xml_records(root)
    spans: Ranges = []
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
    records: list[Range] | None = find_xml_records(text)
    if not records:
        return [TextChunk(0, len(text), is_atomic=True)]
    chunks = []
    for start, end in records:
        raw_record = text[start:end]
        spaced_record = raw_record.replace("><", "> <")
        record_text = strip_tags(spaced_record)
        chunk = TextChunk(start, end, display_text=record_text, is_atomic=True)
        chunks.append(chunk)
    return fill_gaps(text, chunks)
