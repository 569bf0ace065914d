"""Parse an answer before it is judged: its claims, each with its exact characters.

Models answer in Markdown, tables, JSON, steps and lists, behind their reasoning and
before an offer to help. markdown-it-py reads Markdown, the standard library JSON; the
rest is prose, split into sentences. Text that does not count is overwritten with
blanks, so every offset is one of the answer. A new form of answer belongs in
`_AnswerReader`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import HTML_EMPTY

from denoise_core.spans import (
    Range,
    Ranges,
    RangeTuple,
    complement_spans,
    join_spans,
)
from denoise_core.support.citation_marks import (
    BRACKETED,
    cited_names,
    is_worded,
    named_labels,
)
from denoise_core.support.layout import (
    blank_ranges,
    inline_text,
    json_start,
    markdown_tokens,
    normalize_line_breaks,
    split_key_words,
    table_cells,
    token_range,
    trim_range,
    trim_to_words,
)
from denoise_core.support.normal_form import normalize_text
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.json_spans import json_leaves, parse_json_at
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.text_chunk import line_spans
from denoise_core.text.wordlists import FUNCTION_WORDS, word_set
from denoise_core.weighted_cache import cache_by_bytes

if TYPE_CHECKING:
    from markdown_it.token import Token

UnitKind = Literal[
    "sentence",
    "item",
    "row",
    "field",
    "polarity",
    "code",
    "lead",
    "question",
    "talk",
    "reasoning",
]
CLAIM_KINDS = frozenset(("sentence", "item", "row", "field", "polarity", "code"))
"""Kinds of units that claim something; the others assert nothing of the world."""

_REASONING = re.compile(
    r"(?<!`)<(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>.*?(?:</\1>|\Z)"
    r"|(?<!`)</(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>",
    re.DOTALL | re.IGNORECASE,
)
_TEXT_FENCES = frozenset(
    ("markdown", "md", "text", "txt", "plaintext")
)  # fences that hold an answer, not code
_EMPHASIS = str.maketrans("*`", "  ")
_HTML_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]{0,30})(?![\w:-])[^<>\n]{0,60}>")

# Closed classes of words: yes and no, question words, names of sources, politeness. They
# never decide what is claimed, only where a claim begins.
_YES_NO_WORDS = word_set(
    "yes yep ja sí si oui true correct 是 是的 对 はい no nope nein non false incorrect 不 不是 いいえ"
)
_SOURCE_WORDS = word_set(
    """
    answer answers based according provided given above following context passage passages document documents
    source sources text texts excerpt excerpts information evidence final short summary conclusion step result
    retrieved search results material details explanation
    """
)
_REPLY_KEYS = word_set(
    """
    source sources citation citations reference references confidence confident score reasoning rationale thought
    thoughts answered status language
    """
)
_POLITE_WORDS = word_set(
    """
    sure certainly course absolutely great good excellent question happy glad help helps helped assist assistance
    thank thanks welcome let know hope free feel please ask anything else need questions clarification best kind
    regards dear hello hi hey greetings sorry more want like further details elaborate think work through
    """
)
_YEAR_DIGITS = 4  # of a number that is no list's
_POLITE_MAX_WORDS = 30  # of a sentence of politeness


@dataclass(frozen=True, slots=True)
class AnswerUnit:
    """Characters ``[start, end)`` of an answer that belong together.

    Attributes:
        kind: What they are, such as a sentence, a table's row or small talk.
        text: What they say, without markup and citations; a row with its column names.
        start: First character in the answer.
        end: Character after the last.
        label: What the text is about: path of a JSON field, the line before a list, the
            question before a yes or no.
        citations: Ranges of the brackets in the unit or right behind it.
    """

    kind: UnitKind
    text: str
    start: int
    end: int
    label: tuple[str, ...] = ()
    citations: RangeTuple = ()

    @property
    def is_claim(self) -> bool:
        """Whether it says something of the world, so that it can be right or wrong."""
        return self.kind in CLAIM_KINDS

    @property
    def standalone_text(self) -> str:
        """What it claims, readable without the rest: behind its label."""
        parts = []
        for label in self.label:
            if label[-1] in ":?：？":
                parts.append(label)
            else:
                parts.append(f"{label}:")
        parts.append(self.text)
        return " ".join(parts)

    @property
    def shown_text(self) -> str:
        """What a judge reads of it who reads the units before it, too."""
        is_field = self.kind in ("field", "talk")
        text = self.text
        if is_field:
            text = self.standalone_text
        if self.kind == "code":
            text = text.replace("\n", " ⏎ ")
        normal = normalize_text(text)
        return normal.text


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer as units, in order; they do not overlap."""

    answer: str
    units: tuple[AnswerUnit, ...]

    @property
    def claims(self) -> tuple[AnswerUnit, ...]:
        """The units that claim something."""
        return tuple(unit for unit in self.units if unit.is_claim)

    @property
    def shown_units(self) -> tuple[AnswerUnit, ...]:
        """The units that a judge is shown: all but the model's reasoning."""
        return tuple(unit for unit in self.units if unit.kind != "reasoning")

    @property
    def text_without_reasoning(self) -> str:
        """The answer without the model's reasoning."""
        reasoning_ranges = []
        for unit in self.units:
            if unit.kind == "reasoning":
                unit_range = (unit.start, unit.end)
                reasoning_ranges.append(unit_range)
        if not reasoning_ranges:
            return self.answer
        answer_ranges = complement_spans(reasoning_ranges, 0, len(self.answer))
        answer_text = join_spans(self.answer, answer_ranges)
        return answer_text.strip()


def parse_answer(
    answer: str, question: str = "", *, ids: Sequence[str] = ()
) -> ParsedAnswer:
    """Split an answer into units. Reads any text, broken markup as prose.

    Takes time linear in the answer's length.

    >>> parsed = parse_answer("Based on the context, it was **1889** [1].")
    >>> [(unit.kind, unit.standalone_text) for unit in parsed.units]
    [('sentence', 'Based on the context, it was 1889.')]

    Args:
        answer: The model's reply.
        question: The question it answers.
        ids: Names that count as citations in brackets, as numbers do.
    """
    return _parse_cached(answer, question, tuple(ids))


@cache_by_bytes("answers", 16 * 2**20, bytes_per_character=40)
def _parse_cached(answer: str, question: str, ids: tuple[str, ...]) -> ParsedAnswer:
    clean_text = normalize_line_breaks(answer)
    units = []
    reasoning_ranges = _reasoning_ranges(clean_text)
    for start, end in reasoning_ranges:
        reasoning_unit = AnswerUnit("reasoning", answer[start:end], start, end)
        units.append(reasoning_unit)
    reasoning_starts = [unit.start for unit in units]
    blank_text = blank_ranges(clean_text, reasoning_ranges)
    characters = list(blank_text)
    for start in reasoning_starts:
        # A sentence must not continue behind reasoning: units would overlap.
        characters[start : start + 2] = "\n\n"
    reader = _AnswerReader(answer, question, ids, reasoning_starts)
    answer_text = "".join(characters)
    units += reader.read(answer_text)
    units.sort(key=lambda unit: (unit.start, unit.end))
    return ParsedAnswer(answer, tuple(units))


def _reasoning_ranges(text: str) -> Ranges:
    """The model's reasoning: between its tags, with them.

    Also up to a closing tag without an opening one, and from an opening tag without a
    closing one to the end: that reply was truncated.
    """
    ranges = []
    last_end = 0
    for match in _REASONING.finditer(text):
        start, end = match.span()
        lacks_opening_tag = match[2] is not None
        if lacks_opening_tag:
            start = last_end
        ranges.append((start, end))
        last_end = end
    return ranges


class _AnswerReader:
    """Reads one answer; ``lead`` is the line that names what follows it."""

    def __init__(
        self,
        answer: str,
        question: str,
        ids: tuple[str, ...],
        reasoning_starts: Sequence[int],
    ) -> None:
        self.answer = answer
        self.reasoning_starts = reasoning_starts
        self.question = " ".join(question.split())
        self.ids = frozenset(ids)
        question_language = detect_language(question, "en")
        self.language = detect_language(answer, question_language)
        self.lead: tuple[str, ...] = ()
        self.has_opened = False
        self.tag_names = set(HTML_EMPTY)
        for match in _HTML_TAG.finditer(answer):
            if match[1]:
                self.tag_names.add(match[2].lower())

    def read(self, clean_text: str) -> Iterator[AnswerUnit]:
        """Read an answer whose reasoning is blank."""
        start_of_json = json_start(clean_text)
        if start_of_json is not None:
            yield from self._read_fields(clean_text, start_of_json)
            return
        block_units = self._read_blocks(clean_text)
        units = sorted(block_units, key=lambda unit: unit.start)
        claim_starts = [unit.start for unit in units if unit.is_claim]
        last_claim_start = max(claim_starts, default=-1)
        for unit in units:
            is_trailing = unit.start > last_claim_start
            announces_nothing = is_trailing and unit.kind == "lead"
            if not announces_nothing:
                yield unit
            elif _is_small_talk(unit.text, self.question):
                yield replace(unit, kind="talk")
            else:
                yield replace(unit, kind="sentence")
        yield from self._read_missing_lines(clean_text, units)

    def _read_missing_lines(
        self, clean_text: str, units: Sequence[AnswerUnit]
    ) -> Iterator[AnswerUnit]:
        """Read lines of which the Markdown parser shows nothing, such as definitions.

        A line that no unit reaches would never be judged.
        """
        unit_starts = [unit.start for unit in units]
        unit_ends = [unit.end for unit in units]
        for line_start, line_end in line_spans(clean_text):
            start, end = trim_range(clean_text, line_start, line_end)
            line = clean_text[start:end]
            begun_count = bisect_left(unit_starts, end)
            ended_count = bisect_right(unit_ends, start)
            is_reached = begun_count > ended_count
            is_fence = line.startswith(("```", "~~~"))
            cited_ranges = self._find_citations(line)
            text = blank_ranges(line, cited_ranges)
            if "=" not in line:  # an attribute may have words that a reader sees
                text = self._blank_tags(text)
            if not _has_word(text) or is_reached or is_fence:
                continue
            kind: UnitKind = "sentence"
            uncited_text = text.strip()
            mark, _, destination = uncited_text.partition(" ")
            is_definition = mark == ":" and " " not in destination
            if cited_ranges and is_definition:
                kind = "talk"  # where a cited link leads, by CommonMark
                line = destination
            yield AnswerUnit(kind, line, start, end)

    def _read_blocks(self, clean_text: str) -> Iterator[AnswerUnit]:
        line_ranges = list(line_spans(clean_text))
        item_depth = 0
        header_cells: list[str] | None = None  # of the open table
        previous_type = ""
        for token in markdown_tokens(clean_text):
            block = token_range(token, line_ranges)
            item_depth += _DEPTH_STEPS.get(token.type, 0)
            if token.type in _LIST_ENDS and not item_depth:
                self.lead = ()
            elif token.type == "table_close":
                header_cells = None
            elif block is None:
                pass
            elif token.type == "fence":
                yield from self._read_fence(clean_text, token, *block)
            elif (
                token.type == "list_item_open"
                and len(token.info) >= _YEAR_DIGITS
                and token.markup == "."
            ):
                # "1889." begins no list, but Markdown reads one.
                start = clean_text.index(token.info, *block)
                end = start + len(token.info)
                yield AnswerUnit("sentence", token.info, start, end)
            elif token.type == "tr_open":
                header_cells = yield from self._read_row(
                    clean_text, block, header_cells
                )
            elif token.type == "inline" and header_cells is None:
                text = inline_text(clean_text, token, *block, self._is_citation)
                is_heading = previous_type == "heading_open"
                block_start, _ = block
                yield from self._read_inline(text, block_start, item_depth, is_heading)
            previous_type = token.type

    def _read_inline(
        self, text: str, offset: int, item_depth: int, is_heading: bool
    ) -> Iterator[AnswerUnit]:
        """Read the text of a paragraph, a list item or a heading."""
        kind: UnitKind = "sentence"
        if item_depth:
            kind = "item"
        elif not is_heading:
            self.lead = ()
        yield from self._read_prose(text, offset, kind, is_heading=is_heading)

    def _read_fence(
        self, clean_text: str, token: Token, start: int, end: int
    ) -> Iterator[AnswerUnit]:
        first = clean_text.find("\n", start, end) + 1 or end
        last_line_start = clean_text.rfind("\n", first, end - 1) + 1
        last = max(first, last_line_start)
        last_line = clean_text[last:end].strip()
        fence_mark = token.markup[:3]
        if not last_line.startswith(fence_mark):
            last = end  # no closing fence
        start, end = trim_range(clean_text, first, last)
        content_end = end
        for reasoning_start in self.reasoning_starts:
            if start < reasoning_start < end:
                content_end = min(content_end, reasoning_start)
        start, end = trim_range(clean_text, start, content_end)
        fence_language = token.info.strip().lower()
        if json_start(clean_text, start, end) is not None:
            yield from self._read_fields(clean_text, start)
        elif fence_language in _TEXT_FENCES:
            outside = [(0, first), (last, len(clean_text))]
            fence_text = blank_ranges(clean_text, outside)
            yield from self._read_blocks(fence_text)
        elif start < end:
            yield AnswerUnit("code", self.answer[start:end], start, end, self.lead)

    def _read_row(
        self, clean_text: str, row: Range, header_cells: list[str] | None
    ) -> Generator[AnswerUnit, None, list[str]]:
        """Yield a table's row as one unit; return the column names, the first row."""
        cell_ranges = list(table_cells(clean_text, *row))
        if not cell_ranges:  # a line of nothing but a pipe
            return header_cells or []
        offset, row_end = row
        row_text = clean_text[offset:row_end]
        cited_ranges = self._find_citations(row_text)
        without_citations = blank_ranges(row_text, cited_ranges)
        visible_text = self._blank_tags(without_citations)
        plain_text = visible_text.translate(_EMPHASIS)
        cell_texts = []
        for start, end in cell_ranges:
            cell_text = plain_text[start - offset : end - offset]
            spaced_text = " ".join(cell_text.split())
            cell_texts.append(spaced_text.strip("_~ "))
        citations = []
        for start, end in cited_ranges:
            own_range = (offset + start, offset + end)
            citations.append(own_range)
        start, _ = cell_ranges[0]
        _, end = cell_ranges[-1]
        kind: UnitKind = "lead"
        column_names = [""] * len(cell_texts)
        if header_cells is not None:
            kind = "row"
            column_names = [*header_cells, *column_names]
        parts = []
        for name, cell_text in zip(column_names, cell_texts, strict=False):
            if cell_text and name:
                parts.append(f"{name}: {cell_text}")
            elif cell_text:
                parts.append(cell_text)
        has_words = any(map(_has_word, cell_texts))
        if has_words:
            text = "; ".join(parts)
            yield AnswerUnit(kind, text, start, end, self.lead, tuple(citations))
        return header_cells or cell_texts

    def _blank_tags(self, text: str) -> str:
        """Overwrite the HTML tags that the answer closes, or that need no closing.

        What else is between such brackets is text: ``git checkout <branch>``.
        """
        tag_ranges = []
        for match in _HTML_TAG.finditer(text):
            if match[2].lower() in self.tag_names:
                tag_ranges.append(match.span())
        return blank_ranges(text, tag_ranges)

    def _find_citations(self, text: str) -> Ranges:
        """The brackets of a text that cite something."""
        citations = []
        for match in BRACKETED.finditer(text):
            bracket = match[0]
            if self._is_citation(bracket):
                bracket_range = match.span()
                citations.append(bracket_range)
        return citations

    def _read_fields(self, clean_text: str, offset: int) -> Iterator[AnswerUnit]:
        """Yield the values of a JSON text; a value's first unit includes its keys."""
        previous_end = offset
        for path, start, end in json_leaves(clean_text, offset):
            label = tuple(split_key_words(key) for key in path if isinstance(key, str))
            raw_value = clean_text[start:end]
            is_empty = raw_value in ("null", '""')
            is_about_reply = any(self._is_about_reply(key) for key in label)
            is_claim = not is_empty and not is_about_reply
            units = []
            if raw_value.startswith('"'):
                quoted_text = raw_value[1:-1]
                text_start = start + 1
                sentences = self._split_sentences(quoted_text, text_start, "field")
                units = list(sentences)
            first_start, _ = trim_to_words(clean_text, previous_end, start)
            if not units:
                units = [AnswerUnit("field", raw_value, start, end)]
            units[0] = replace(units[0], start=first_start)
            for unit in units:
                kind: UnitKind = "talk"
                full_label = label
                if is_claim:  # yes or no has its question
                    kind = unit.kind
                    full_label = (*unit.label, *label)
                unit_text = _decode_escapes(unit.text)
                yield replace(unit, kind=kind, text=unit_text, label=full_label)
            previous_end = end

    def _is_about_reply(self, key: str) -> bool:
        """Whether the value of a JSON key is about the reply: sources, confidence.

        It is none that the question asks for, such as a status or a score.
        """
        key_words = set(key.lower().split())
        question_lexemes = tokenize_text(self.question)
        asked_words = {lexeme.folded_text for lexeme in question_lexemes}
        unasked_words = key_words - asked_words
        return not _REPLY_KEYS.isdisjoint(unasked_words)

    def _read_prose(
        self, text: str, offset: int, kind: UnitKind, *, is_heading: bool
    ) -> Iterator[AnswerUnit]:
        for unit in self._split_sentences(text, offset, kind):
            ends_in_colon = unit.text[-1:] in (":", "：")
            is_lead = is_heading or ends_in_colon
            if not unit.is_claim:
                yield unit
            elif is_lead and unit.kind != "polarity":
                lead_name = unit.text.rstrip(" :：")
                self.lead = (lead_name,)
                yield replace(unit, kind="lead")
            else:
                full_label = (*self.lead, *unit.label)
                yield replace(unit, label=full_label)

    def _split_sentences(
        self, text: str, offset: int, kind: UnitKind
    ) -> Iterator[AnswerUnit]:
        """Split text that begins at ``offset`` of the answer."""
        citations = self._find_citations(text)
        without_citations = blank_ranges(text, citations)
        visible_text = self._blank_tags(without_citations)
        for first, last in folded_sentences(visible_text, self.language):
            own_citations = []
            for citation_start, citation_end in citations:
                if first <= citation_start < last:
                    own_range = (offset + citation_start, offset + citation_end)
                    own_citations.append(own_range)
            start, end = trim_range(visible_text, first, last)
            sentence_text = visible_text[start:end]
            if not _has_word(sentence_text):
                continue
            unit_kind = self._unit_kind(sentence_text, kind)
            spaced_text = " ".join(sentence_text.split())
            if kind != "field":  # JSON still has its escapes
                spaced_text = normalize_text(sentence_text).text
            unit_text = re.sub(r" (?=[.,;:!?)])", "", spaced_text)
            label: tuple[str, ...] = ()
            if unit_kind == "polarity":
                label = (self.question,)
            yield AnswerUnit(
                unit_kind,
                unit_text,
                offset + start,
                offset + end,
                label,
                tuple(own_citations),
            )

    def _unit_kind(self, text: str, kind: UnitKind) -> UnitKind:
        """What a sentence is; one of list items and fields keeps its kind."""
        if text[-1] in "?？؟":
            return "question"
        is_opening = not self.has_opened
        self.has_opened = True
        if is_opening and self.question and _opens_with_yes_or_no(text):
            return "polarity"
        if _is_small_talk(text, self.question):
            return "talk"
        return kind

    def _is_citation(self, bracket: str) -> bool:
        names = cited_names(bracket)
        return all(map(self._is_cited_name, names))

    def _is_cited_name(self, name: str) -> bool:
        labels = named_labels(name)
        if name in self.ids:
            return True
        if not labels or not is_worded(name):
            return bool(labels)
        passage_numbers = [int(label.partition(".")[0]) for label in labels]
        return max(passage_numbers) <= len(self.ids)


_DEPTH_STEPS = {"list_item_open": 1, "list_item_close": -1}
_LIST_ENDS = ("bullet_list_close", "ordered_list_close")


def _decode_escapes(text: str) -> str:
    """The text of a JSON string; half of an escape stays as it is written."""
    json_string = f'"{text}"'
    parsed_value = parse_json_at(json_string, 0)
    if parsed_value is None:
        return text
    return str(parsed_value[0])


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


# --- Text that addresses the reader and says nothing of the world


def _opens_with_yes_or_no(text: str) -> bool:
    """Whether a text is yes or no, or begins with it and a comma or the like."""
    first_text = text[:40]
    lexemes = [*tokenize_text(first_text)]
    if not lexemes:
        return False
    first_lexeme = lexemes[0]
    if first_lexeme.folded_text not in _YES_NO_WORDS:
        return False
    if len(lexemes) == 1:
        return True
    next_lexeme = lexemes[1]
    return next_lexeme.text in ",.:;!，。！—–-"


def _is_small_talk(text: str, question: str) -> bool:
    """Whether a text is politeness and says nothing of the world.

    Half of its content words are polite, the others name sources or come from the
    question.
    """
    content = _content_words(text)
    polite_count = sum(word in _POLITE_WORDS for word in content)
    most_words = min(_POLITE_MAX_WORDS, 2 * polite_count)
    if not 0 < polite_count <= len(content) <= most_words:
        return False
    question_lexemes = tokenize_text(question)
    question_words = {lexeme.folded_text for lexeme in question_lexemes}
    allowed_words = _POLITE_WORDS | _SOURCE_WORDS | question_words
    return set(content) <= allowed_words


def _content_words(text: str) -> list[str]:
    """The words of a text that carry content, and its numbers."""
    content_words = []
    for lexeme in tokenize_text(text):
        if lexeme.kind == "mark":
            continue
        word, _, _ = lexeme.folded_text.partition("'")
        if word not in FUNCTION_WORDS:
            content_words.append(word)
    return content_words


# --- Sentences, of answers and of passages


def folded_sentences(text: str, language: str) -> Ranges:
    """The sentences of a text; a line break that only folds a line ends none."""
    if language not in ("de", "fr", "es", "zh"):
        language = "en"
    joined_text = _join_folded_lines(text)
    return sentence_ranges(joined_text, language=language)


def _join_folded_lines(text: str) -> str:
    """Replace each line break inside a sentence by a blank; offsets stay."""
    lines = text.split("\n")
    parts = []
    for line, next_line in pairwise(lines):
        parts.append(line)
        if _is_folded(line, next_line):
            parts.append(" ")
        else:
            parts.append("\n")
    parts.append(lines[-1])
    return "".join(parts)


def _is_folded(line: str, next_line: str) -> bool:
    """Whether the break between two lines is inside a word or a sentence."""
    last_character = line[-1:]
    if last_character and last_character in "-‐\u00ad":
        return True
    can_continue = last_character.isalpha() or last_character == ","
    next_character = next_line[:1]
    return can_continue and next_character.islower()
