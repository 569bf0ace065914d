"""Parse an answer before it is judged: its claims, each with its exact characters.

Models answer in Markdown, tables, JSON, steps and lists, behind their reasoning and
before an offer to help. markdown-it-py reads Markdown, the standard library JSON; the
rest is prose, split into sentences. Text that does not count is overwritten with
blanks, so every offset is one of the answer. A new form of answer belongs in
`_AnswerReader`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from denoise_core.support.layout import (
    blank_ranges,
    inline_text,
    line_starts,
    markdown_tokens,
    normalize_line_breaks,
    split_key_words,
    table_cells,
    trim_range,
)
from denoise_core.text.chunk import sentence_spans
from denoise_core.text.json_spans import json_leaves, parse_json_at
from denoise_core.text.language import detect_language
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.wordlists import FUNCTION_WORDS, word_set
from denoise_core.types import Passage

if TYPE_CHECKING:
    from markdown_it.token import Token

UnitKind = Literal[
    "sentence",
    "item",
    "cell",
    "field",
    "polarity",
    "code",
    "lead",
    "question",
    "talk",
    "reasoning",
]
CLAIM_KINDS = frozenset(("sentence", "item", "cell", "field", "polarity", "code"))
"""Kinds of units that claim something; the others assert nothing of the world."""

_REASONING = re.compile(
    r"<(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>.*?(?:</\1>|\Z)"
    r"|</(think|thinking|thought|reasoning|scratchpad|analysis|reflection)>",
    re.DOTALL | re.IGNORECASE,
)
_TEXT_FENCES = frozenset(
    ("markdown", "md", "text", "txt", "plaintext")
)  # fences that hold an answer, not code
_EMPHASIS = str.maketrans("*`", "  ")
_HTML_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,60}>")
_BRACKETED = re.compile(r"\[[^\[\]\n]{1,80}\]|【[^】\n]{1,40}】")
_NUMBER_CITATION = re.compile(
    r"[\[【]\s{0,3}(?:\^|\w{1,9}\s)?\d{1,3}(?:\s{0,3}[,;–-]\s{0,3}\d{1,3}){0,40}[^\w\[\]]{0,9}[\]】]"
)

# Closed classes of words: yes and no, question words, names of sources, politeness. They
# never decide what is claimed, only where a claim begins.
_YES_NO_WORDS = word_set(
    "yes yep ja sí si oui true correct 是 是的 对 はい no nope nein non false incorrect 不 不是 いいえ"
)
_OPEN_QUESTION_WORDS = word_set(
    """
    who whom whose what which when where why how wer wen wem wessen welche welcher welches welchen welchem wann
    wo warum wieso wie qui que quoi quel quelle quels quelles quand où pourquoi comment combien quién quiénes qué
    cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas 谁 什 哪 几 何
    """
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
_POLITE_MAX_WORDS = 30  # of a sentence of politeness


@dataclass(frozen=True, slots=True)
class AnswerUnit:
    """Characters ``[start, end)`` of an answer that belong together.

    Attributes:
        kind: What they are, such as a sentence, a table cell or small talk.
        text: What they say, without markup and citations.
        start: First character in the answer.
        end: Character after the last.
        label: What the text is about: row and column of a table cell, path of a JSON
            field, the line before a list, the question before a yes or no.
        citations: Ranges of the brackets in the unit or right behind it.
    """

    kind: UnitKind
    text: str
    start: int
    end: int
    label: tuple[str, ...] = ()
    citations: tuple[tuple[int, int], ...] = ()

    @property
    def is_claim(self) -> bool:
        """Whether it says something of the world, so that it can be right or wrong."""
        return self.kind in CLAIM_KINDS

    @property
    def standalone_text(self) -> str:
        """What it claims, readable without the rest: behind its label."""
        if self.kind == "cell":
            if not self.label:
                return self.text
            return f"{', '.join(self.label)}: {self.text}"
        parts = []
        for label in self.label:
            parts.append(label if label[-1] in ":?：？" else f"{label}:")
        return " ".join((*parts, self.text))


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
    def text_without_reasoning(self) -> str:
        """The answer without the model's reasoning: what is sent."""
        parts, offset = [], 0
        for unit in self.units:
            if unit.kind == "reasoning":
                parts.append(self.answer[offset : unit.start])
                offset = unit.end
        if not offset:
            return self.answer
        return ("".join(parts) + self.answer[offset:]).strip()


def parse_answer(
    answer: str, question: str = "", *, ids: Sequence[str] = ()
) -> ParsedAnswer:
    """Split an answer into units. Reads any text, broken markup as prose.

    Takes time linear in the answer's length.

    >>> parsed = parse_answer("Based on the context, it was **1889** [1].")
    >>> [(unit.kind, unit.standalone_text) for unit in parsed.units]
    [('sentence', 'it was 1889.')]

    Args:
        answer: The model's reply.
        question: The question it answers.
        ids: Names that count as citations in brackets, as numbers do.
    """
    return _parse_cached(answer, question, tuple(ids))


@lru_cache(maxsize=256)
def _parse_cached(answer: str, question: str, ids: tuple[str, ...]) -> ParsedAnswer:
    clean_text = normalize_line_breaks(answer)
    units: list[AnswerUnit] = []
    for start, end in _reasoning_ranges(clean_text):
        units.append(AnswerUnit("reasoning", answer[start:end], start, end))
    reasoning_starts = [unit.start for unit in units]
    characters = list(blank_ranges(clean_text, [(u.start, u.end) for u in units]))
    for start in reasoning_starts:
        # A sentence must not continue behind reasoning: units would overlap.
        characters[start : start + 2] = "\n\n"
    reader = _AnswerReader(answer, question, ids, reasoning_starts)
    units += reader.read("".join(characters))
    units.sort(key=lambda unit: (unit.start, unit.end))
    return ParsedAnswer(answer, tuple(units))


def _reasoning_ranges(text: str) -> list[tuple[int, int]]:
    """The model's reasoning: between its tags, with them.

    Also up to a closing tag without an opening one, and from an opening tag without a
    closing one to the end: that reply was truncated.
    """
    ranges, offset = [], 0
    for match in _REASONING.finditer(text):
        ranges.append((offset if match[2] else match.start(), match.end()))
        offset = match.end()
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
        self.language = detect_language(answer, detect_language(question, "en"))
        self.lead: tuple[str, ...] = ()
        self.has_opened = False

    def read(self, clean_text: str) -> Iterator[AnswerUnit]:
        """Read an answer whose reasoning is blank."""
        start, end = trim_range(clean_text, 0, len(clean_text))
        if _is_json(clean_text, start, end):
            yield from self._read_fields(clean_text, start)
            return
        units = list(self._read_blocks(clean_text))
        last_claim = max(
            (n for n, unit in enumerate(units) if unit.is_claim), default=-1
        )
        for number, unit in enumerate(units):
            if unit.kind == "lead" and number > last_claim:
                # It announces nothing that came.
                is_talk = _is_small_talk(unit.text, self.question)
                unit = replace(unit, kind="talk" if is_talk else "sentence")
            yield unit

    def _read_blocks(self, clean_text: str) -> Iterator[AnswerUnit]:
        tokens, starts = markdown_tokens(clean_text), line_starts(clean_text)
        item_depth = 0
        header_cells: list[str] | None = None  # of the open table
        for number, token in enumerate(tokens):
            block: tuple[int, int] | None = None
            if token.map:
                first_line, last_line = token.map
                last_line = min(last_line, len(starts) - 1)
                block = starts[first_line], starts[last_line]
            if token.type == "list_item_open":
                item_depth += 1
            elif token.type == "list_item_close":
                item_depth -= 1
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                self.lead = self.lead if item_depth else ()
            elif token.type == "table_close":
                header_cells = None
            elif block is None:
                continue
            elif token.type == "fence":
                yield from self._read_fence(clean_text, token, *block)
            elif token.type == "tr_open":
                header_cells = yield from self._read_row(
                    clean_text, block, header_cells
                )
            elif token.type == "inline" and header_cells is None:
                is_heading = tokens[number - 1].type == "heading_open"
                if not (item_depth or is_heading):
                    self.lead = ()
                kind: UnitKind = "item" if item_depth else "sentence"
                text = inline_text(clean_text, token, *block)
                yield from self._read_prose(text, block[0], kind, is_heading=is_heading)

    def _read_fence(
        self, clean_text: str, token: Token, start: int, end: int
    ) -> Iterator[AnswerUnit]:
        first = clean_text.find("\n", start, end) + 1 or end
        last = max(first, clean_text.rfind("\n", first, end - 1) + 1)
        if not clean_text[last:end].strip().startswith(token.markup[:3]):
            last = end  # no closing fence
        start, end = trim_range(clean_text, first, last)
        reasoning_inside = [n for n in self.reasoning_starts if start < n < end]
        start, end = trim_range(clean_text, start, min(reasoning_inside, default=end))
        if _is_json(clean_text, start, end):
            yield from self._read_fields(clean_text, start)
        elif token.info.strip().lower() in _TEXT_FENCES:
            outside = [(0, first), (last, len(clean_text))]
            yield from self._read_blocks(blank_ranges(clean_text, outside))
        elif start < end:
            yield AnswerUnit("code", self.answer[start:end], start, end, self.lead)

    def _read_row(
        self, clean_text: str, row: tuple[int, int], header_cells: list[str] | None
    ) -> Generator[AnswerUnit, None, list[str]]:
        """Yield the claims of a table row; return the column names, the first row."""
        cell_ranges = list(table_cells(clean_text, *row))
        cell_texts = []
        for start, end in cell_ranges:
            without_tags = _HTML_TAG.sub(" ", clean_text[start:end])
            cell_texts.append(without_tags.strip(" *_`~"))
        if header_cells is None:
            return cell_texts
        for column, (start, end) in enumerate(cell_ranges):
            is_row_name = column == 0 and len(cell_ranges) > 1
            if not cell_texts[column] or is_row_name:
                continue
            names = [cell_texts[0]] if column else []
            names += header_cells[column : column + 1]
            label = (*self.lead, *filter(None, names))
            cell_text = clean_text[start:end].translate(_EMPHASIS)
            for unit in self._split_sentences(cell_text, start, "cell"):
                yield replace(unit, label=label)
        return header_cells

    def _read_fields(self, clean_text: str, offset: int) -> Iterator[AnswerUnit]:
        for path, start, end in json_leaves(clean_text, offset):
            label = tuple(split_key_words(key) for key in path if isinstance(key, str))
            raw_value = clean_text[start:end]
            if any(map(_is_about_reply, label)) or raw_value in ("null", '""'):
                continue
            if raw_value in ("true", "false"):
                yield AnswerUnit("polarity", raw_value, start, end, label)
                continue
            quote_length = int(raw_value.startswith('"'))
            start, end = start + quote_length, end - quote_length
            for unit in self._split_sentences(clean_text[start:end], start, "field"):
                text = unit.text
                if quote_length:
                    # None for half of an escape, which stays as it is written.
                    value = parse_json_at(f'"{text}"', 0)
                    text = str(value[0]) if value else text
                yield replace(unit, text=text, label=label if unit.is_claim else ())

    def _read_prose(
        self, text: str, offset: int, kind: UnitKind, *, is_heading: bool
    ) -> Iterator[AnswerUnit]:
        for unit in self._split_sentences(text, offset, kind):
            is_lead = is_heading or unit.text[-1:] in (":", "：")
            if not unit.is_claim:
                yield unit
            elif is_lead and unit.kind != "polarity":
                name = unit.text.rstrip(" :：")
                self.lead = () if _is_announcement(unit.text) else (name,)
                yield replace(unit, kind="lead")
            else:
                yield replace(unit, label=(*self.lead, *unit.label))

    def _split_sentences(
        self, text: str, offset: int, kind: UnitKind
    ) -> Iterator[AnswerUnit]:
        """Split text that begins at ``offset`` of the answer."""
        citations = [
            match.span()
            for match in _BRACKETED.finditer(text)
            if self._is_citation(match[0])
        ]
        visible = blank_ranges(text, citations)
        visible = _HTML_TAG.sub(lambda match: " " * len(match[0]), visible)
        for first, last in sentence_ranges(join_folded_lines(visible), self.language):
            inside = [(a, b) for a, b in citations if first <= a < last]
            own_citations = tuple((offset + a, offset + b) for a, b in inside)
            sentence = trim_range(visible, first, last)
            for part_kind, start, end in self._split_parts(visible, *sentence, kind):
                start, end = trim_range(visible, start, end)
                words = " ".join(visible[start:end].split())
                yield AnswerUnit(
                    part_kind,
                    re.sub(r" (?=[.,;:!?)])", "", words),
                    offset + start,
                    offset + end,
                    (self.question,) if part_kind == "polarity" else (),
                    own_citations,
                )

    def _split_parts(
        self, text: str, start: int, end: int, kind: UnitKind
    ) -> Iterator[tuple[UnitKind, int, int]]:
        """Split a sentence into a yes or no that it opens with, and its claim."""
        if not any(map(str.isalnum, text[start:end])):
            return
        if text[end - 1] in "?？؟":
            yield "question", start, end
            return
        opening_length = 0
        if not self.has_opened:
            opening_length = _yes_no_length(text[start:end])
        self.has_opened = True
        if opening_length:
            is_answer = is_yes_no_question(self.question) and kind != "cell"
            part_kind: UnitKind = "polarity" if is_answer else "talk"
            yield part_kind, start, start + opening_length
        start, end = trim_range(text, start + opening_length, end)
        if not any(map(str.isalnum, text[start:end])):
            return
        if _is_small_talk(text[start:end], self.question):
            yield "talk", start, end
        else:
            yield kind, start + _preamble_length(text[start:end]), end

    def _is_citation(self, bracket: str) -> bool:
        if _NUMBER_CITATION.fullmatch(bracket):
            return True
        names = [name.strip() for name in re.split(r"[,;]", bracket[1:-1])]
        return all(name in self.ids for name in names)


def _is_json(text: str, start: int, end: int) -> bool:
    """Whether the characters ``[start, end)`` are one JSON object or list."""
    if text[start : min(start + 1, end)] not in ("{", "["):
        return False
    value = parse_json_at(text, start)
    return value is not None and not text[value[1] : end].strip()


# --- Text that addresses the reader and says nothing of the world


def _yes_no_length(text: str) -> int:
    """Characters of the yes or no that a text opens with, and its punctuation."""
    lexemes = [*tokenize_text(text[:40])]
    if not lexemes or lexemes[0].folded_text not in _YES_NO_WORDS:
        return 0
    if len(lexemes) == 1:
        return len(text)
    mark = lexemes[1]
    return mark.end if mark.text in ",.:;!，。！—–-" else 0


def is_yes_no_question(question: str) -> bool:
    """Whether yes or no can answer it: it asks for no thing, place, time or reason."""
    question_words = [x for x in tokenize_text(question) if x.kind != "mark"]
    open_words = _OPEN_QUESTION_WORDS
    if detect_language(question) == "de":
        open_words = open_words | {"was"}  # "what"; in English a verb
    for number, word in enumerate(question_words):
        # A capital inside the question is a name: "Who" the band, "Wo" the place.
        is_name = number > 0 and not word.text.islower()
        if word.folded_text in open_words and not is_name:
            return False
    return bool(question_words)


def _is_small_talk(text: str, question: str) -> bool:
    """Whether a text is politeness and says nothing of the world.

    Half of its content words are polite, the others name sources or come from the
    question.
    """
    content = _content_words(text)
    polite_count = sum(word in _POLITE_WORDS for word in content)
    longest = min(_POLITE_MAX_WORDS, 2 * polite_count)
    if not 0 < polite_count <= len(content) <= longest:
        return False
    question_words = {lexeme.folded_text for lexeme in tokenize_text(question)}
    return set(content) <= _POLITE_WORDS | _SOURCE_WORDS | question_words


def _preamble_length(text: str) -> int:
    """Characters of a beginning that only names sources: "By the context,"."""
    for lexeme in tokenize_text(text[:300]):
        if lexeme.text in ",:：，":
            beginning = text[: lexeme.start]
            if not _content_words(beginning) or not _is_announcement(beginning):
                return 0
            return len(text) - len(text[lexeme.end :].lstrip())
    return 0


def _is_announcement(text: str) -> bool:
    """Whether it only names sources, or that an answer comes."""
    return all(word in _SOURCE_WORDS for word in _content_words(text))


def _is_about_reply(key: str) -> bool:
    """Whether the value of a JSON key is about the reply: sources, confidence."""
    return any(word.lower() in _REPLY_KEYS for word in key.split())


def _content_words(text: str) -> list[str]:
    """The words of a text that carry content, and its numbers."""
    lexemes = [x for x in tokenize_text(text) if x.kind != "mark"]
    words = [lexeme.folded_text.split("'")[0] for lexeme in lexemes]
    return [word for word in words if word not in FUNCTION_WORDS]


# --- Sentences, of answers and of passages


def sentence_ranges(text: str, language: str) -> list[tuple[int, int]]:
    """The sentences of a text as half-open character ranges."""
    if language not in ("de", "fr", "es", "zh"):
        language = "en"
    spans = sentence_spans(Passage(text, "e"), language=language)
    return [(span.start, span.end) for span in spans]


def join_folded_lines(text: str) -> str:
    """Replace each line break inside a sentence by a blank; offsets stay."""
    lines = text.split("\n")
    parts = []
    for line, next_line in pairwise(lines):
        parts += [line, " " if _is_folded(line, next_line) else "\n"]
    return "".join(parts) + lines[-1]


def _is_folded(line: str, next_line: str) -> bool:
    """Whether the break between two lines is inside a word or a sentence."""
    last = line[-1:]
    if last and last in "-‐\u00ad":
        return True
    return (last.isalpha() or last == ",") and next_line[:1].islower()
