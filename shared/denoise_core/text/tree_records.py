"""Records of YAML and XML, found by their parsers: list items and repeated elements.

A record is whole lines of YAML, or an element of XML from its opening to its closing
tag, so what is left without it can be parsed. Everything else is structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from denoise_core.spans import Range, Ranges
from denoise_core.text.markup import strip_tags
from denoise_core.text.text_chunk import TextChunk, fill_gaps, line_at

try:
    import yaml
except ModuleNotFoundError:  # the adapters' frameworks bring PyYAML, the core does not
    yaml = None  # type: ignore[assignment]

MAX_PARSED_CHARACTERS = 400_000
"""A longer text is not parsed as YAML, which takes a second for so many characters."""

_MIN_LINES = 6
_MIN_YAML_LINES = 0.8  # of the lines look like YAML before it is parsed


def detect_tree_format(text: str) -> str:
    """Return ``"xml"``, ``"yaml"``, or ``""`` for neither."""
    text_head = text.lstrip()[:200].lower()
    if text_head.startswith("<"):
        is_page = text_head.startswith(("<!doctype html", "<html"))
        if not is_page and find_xml_records(text) is not None:
            return "xml"
        return ""
    if _looks_like_yaml(text) and load_yaml_nodes(text) is not None:
        return "yaml"
    return ""


# --- YAML


def _looks_like_yaml(text: str) -> bool:
    """Whether most lines are a key or a list item, as they rarely are in prose."""
    if len(text) > MAX_PARSED_CHARACTERS:
        return False
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) < _MIN_LINES or lines[0][0] in "{[":
        return False
    yaml_lines = 0
    for line in lines:
        has_key = ": " in line or line.endswith(":")
        key = line.removeprefix("- ").removesuffix(":").partition(": ")[0]
        # A colon or a dash inside: a log's time, or prose.
        is_plain = ":" not in key and " - " not in key
        is_short_key = has_key and is_plain and 0 < len(key) <= 40
        yaml_lines += is_short_key or line.startswith(("#", "---"))
    return yaml_lines >= _MIN_YAML_LINES * len(lines)


def load_yaml_nodes(text: str) -> list[Any] | None:
    """Return the root nodes of the documents of a YAML text, with their positions.

    None for a text that is not valid, or without PyYAML. Nothing is constructed from
    the nodes, so tags in the text have no effect.
    """
    if yaml is None:
        return None
    # In C where PyYAML was built with it.
    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        nodes = list(yaml.compose_all(text, Loader=safe_loader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    is_tree = nodes and all(isinstance(node, yaml.CollectionNode) for node in nodes)
    if not is_tree:
        return None
    return nodes


def count_empty_values(text: str) -> int | None:
    """Return the number of fields without a value outside of lists of objects.

    None for a text that is no YAML.
    """
    roots = load_yaml_nodes(text)
    if roots is None:
        return None
    count = 0
    pending = list(roots)
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            pending += [member for _, member in node.value]
        elif isinstance(node, yaml.ScalarNode) and not node.value and not node.style:
            count += 1
    return count


def yaml_chunks(text: str) -> list[TextChunk] | None:
    """Chunk a YAML text: one chunk for each item of its outermost lists of objects."""
    item_spans: Ranges = []
    for root in load_yaml_nodes(text) or ():
        _collect_yaml_items(text, root, item_spans)
    if not item_spans:
        return [TextChunk(0, len(text), is_atomic=True)]
    chunks = [TextChunk(*span, is_atomic=True) for span in sorted(item_spans)]
    return fill_gaps(text, chunks)


def _collect_yaml_items(text: str, node: Any, item_spans: Ranges) -> None:
    if isinstance(node, yaml.MappingNode):
        for _, member in node.value:
            _collect_yaml_items(text, member, item_spans)
    elif isinstance(node, yaml.SequenceNode) and not node.flow_style:
        items = node.value
        if len(items) > 1 and all(isinstance(i, yaml.CollectionNode) for i in items):
            item_starts = [line_at(text, item.start_mark.index)[0] for item in items]
            end, _ = line_at(text, node.end_mark.index)
            if not text[node.end_mark.index :].strip():
                end = len(text)
            item_ends = [*item_starts[1:], end]
            if item_starts == sorted(set(item_starts)) and item_starts[-1] < end:
                item_spans += zip(item_starts, item_ends, strict=True)


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
        open_elements[-1].children.append(element)
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
    records: list[XmlElement] = []
    _collect_xml_records(root, records)
    spans: Ranges = []
    end = len(text) - len(text.lstrip())
    previous_end = 0
    for record in records:
        start = end + _count_characters(source[previous_end : record.start])
        end = start + _count_characters(source[record.start : record.end])
        spans.append((start, end))
        previous_end = record.end
    return spans


def _count_characters(source: bytes) -> int:
    return len(source.decode("utf-8", "replace"))


def _collect_xml_records(element: XmlElement, records: list[XmlElement]) -> None:
    """Collect the children of the outermost elements that repeat one name."""
    counts: dict[str, int] = {}
    for child in element.children:
        counts[child.name] = counts.get(child.name, 0) + 1
    for child in element.children:
        has_parts = bool(child.children) or child.has_attributes
        if counts[child.name] > 2 and has_parts:
            records.append(child)
        else:
            _collect_xml_records(child, records)


def xml_chunks(text: str) -> list[TextChunk] | None:
    """Chunk XML: one chunk for each record, and structure around them."""
    records: list[Range] | None = find_xml_records(text)
    if not records:
        return [TextChunk(0, len(text), is_atomic=True)]
    chunks = []
    for start, end in records:
        record_text = strip_tags(text[start:end].replace("><", "> <"))
        chunk = TextChunk(start, end, display_text=record_text, is_atomic=True)
        chunks.append(chunk)
    return fill_gaps(text, chunks)
