"""Check an answer's quotations and citations by code, without a model.

A quotation is text between quotation marks or in a block quote. Its words are in a
passage or they are not: that needs no judgement, and it says nothing of whether the
sentence around them is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from denoise_core.spans import Range
from denoise_core.support.answers import AnswerUnit, parse_answer
from denoise_core.support.citing import (
    Citation,
    citable_text,
    find_citations,
    matching_runs,
    unit_citations,
)
from denoise_core.support.judging import (
    ProviderCitation,
    Quotation,
    QuotationStatus,
)
from denoise_core.support.labels import evidence_ranges, passage_header
from denoise_core.support.layout import (
    blank_ranges,
    markdown_tokens,
    normalize_line_breaks,
    trim_range,
)
from denoise_core.support.normal_form import find_words, fold_text, is_unspaced
from denoise_core.text.text_chunk import line_spans
from denoise_core.types import Passage, Span

MIN_WORDS = 3  # fewer in quotation marks are a title, a term or irony
_MIN_PIECE_WORDS = 3  # of one piece of a stitched quotation
_MAX_CHARACTERS = 2000  # of a quotation in marks; else each open mark reads to the end
_CLOSING_MARKS = {
    '"': '"',
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‘": "’",
    "「": "」",
    "『": "』",
}
_ELISION = "…"


def check_quotations(
    answer: str,
    passages: Sequence[Passage],
    provided: Sequence[ProviderCitation] = (),
    *,
    is_numbered: bool = True,
) -> tuple[Quotation, ...]:
    """Locate each quotation of an answer, and each sentence that a citation follows.

    A quotation of fewer than three words is a title or a term and is left out, and so
    are cited sentences in other words than the passage's. An elision ("...") may leave
    out words of one sentence; more makes a quotation ``stitched``.

    >>> tower = Passage("The tower was completed in 1889.", "a")
    >>> found = check_quotations('It "was completed in 1889", see [1].', [tower])
    >>> [(quotation.text, quotation.status) for quotation in found]
    [('was completed in 1889', 'verbatim')]

    Args:
        answer: The answer, as the model wrote it.
        passages: The evidence, in the order in which citations count it.
        provided: The citations that came along with the answer's text.
        is_numbered: See `find_citations`.

    Returns:
        The quotations in order. What is `verbatim` is proven; nothing here says that a
        sentence is supported.
    """
    passage_ids = [passage.id for passage in passages]
    parsed_answer = parse_answer(answer, ids=passage_ids)
    citations = find_citations(answer, passages, provided, is_numbered=is_numbered)
    answer_text = citable_text(parsed_answer)
    clean_text = normalize_line_breaks(answer_text)
    quoted_ranges = list(_quoted_ranges(clean_text))
    quotations = []
    for start, end in quoted_ranges:
        word_count = _count_words(clean_text[start:end])
        if word_count >= MIN_WORDS:
            cited_ids = _ids_cited_for(start, end, parsed_answer.units, citations)
            text = answer[start:end]
            status, spans = _locate_quotation(text, passages, cited_ids)
            quotation = Quotation(text, start, end, status, spans)
            quotations.append(quotation)
    for citation in citations:
        if citation.unknown:
            start = citation.start
            end = citation.end
            text = answer[start:end]
            unknown_citation = Quotation(text, start, end, "nowhere")
            quotations.append(unknown_citation)
    for unit in parsed_answer.units:
        start = unit.start
        end = unit.end
        is_cited = bool(unit_citations(unit, citations))
        is_quoting = any(start <= quoted < end for quoted, _ in quoted_ranges)
        if not is_cited or is_quoting or _count_words(unit.text) < MIN_WORDS:
            continue
        cited_ids = _ids_cited_for(start, end, [unit], citations)
        status, spans = _locate_quotation(unit.text, passages, cited_ids)
        if status in ("verbatim", "misattributed"):
            text = answer[start:end]
            cited_sentence = Quotation(text, start, end, status, spans)
            quotations.append(cited_sentence)
    quotations.sort(key=lambda quotation: quotation.start)
    return tuple(quotations)


def _count_words(text: str) -> int:
    """Words; of scripts without blanks, characters."""
    count = 0
    folded = fold_text(text)
    for word in folded.text.split():
        if any(map(is_unspaced, word)):
            count += len(word)
        else:
            count += 1
    return count


def _quoted_ranges(text: str) -> Iterator[Range]:
    """Block quotes, and what is between quotation marks outside of them."""
    block_ranges = list(_block_quotes(text))
    for start, end in block_ranges:
        yield start, end
    text = blank_ranges(text, block_ranges)
    position = 0
    while position < len(text):
        end = _closing_position(text, position)
        if end:
            yield trim_range(text, position + 1, end)
            position = end
        position += 1


def _block_quotes(text: str) -> Iterator[Range]:
    """The paragraphs of block quotes, without a last line that names the source."""
    line_ranges = list(line_spans(text))
    depth = 0
    last_end = 0
    for token in markdown_tokens(text):
        if token.type == "blockquote_open":
            depth += 1
        elif token.type == "blockquote_close":
            depth -= 1
        elif token.type == "inline" and depth and token.map:
            first_line, line_after = token.map
            *earlier_lines, (start, end) = line_ranges[first_line:line_after]
            last_text = text[start:end].lstrip("> \t")
            names_source = last_text.startswith(("-", "–", "—"))
            if earlier_lines and names_source:
                _, end = earlier_lines[-1]
            if earlier_lines:
                start, _ = earlier_lines[0]
            if start >= last_end:  # the cells of a table's row have one range
                yield trim_range(text, start, end)
                last_end = end


def _closing_position(text: str, position: int) -> int:
    """Where the quotation ends whose mark is at ``position``; 0 where none begins."""
    opening_mark = text[position]
    closing_marks = _CLOSING_MARKS.get(opening_mark, "")
    before = text[position - 1 : position]
    after = text[position + 1 : position + 2]
    is_spaced = after.isspace()
    if not closing_marks or _is_spaced_letter(before):
        return 0
    if is_spaced and opening_mark != "«":  # French has blanks inside
        return 0
    limit = min(position + _MAX_CHARACTERS, len(text))
    paragraph_end = text.find("\n\n", position, limit)
    if paragraph_end < 0:
        paragraph_end = limit
    for end in range(position + 1, paragraph_end):
        is_behind_blank = text[end - 1].isspace()
        if text[end] not in closing_marks or is_behind_blank != is_spaced:
            continue
        next_character = text[end + 1 : end + 2]
        if not _is_spaced_letter(next_character):
            return end
    return 0


def _is_spaced_letter(character: str) -> bool:
    """Whether a mark next to this character is inside a word."""
    return character.isalnum() and not is_unspaced(character)


def _ids_cited_for(
    start: int,
    end: int,
    units: Sequence[AnswerUnit],
    citations: Sequence[Citation],
) -> tuple[str, ...]:
    """The passages cited in the units that ``[start, end)`` reaches."""
    ids: list[str] = []
    for unit in units:
        if unit.start >= end or start >= unit.end:
            continue
        for citation in unit_citations(unit, citations):
            ids += citation.ids
    unique_ids = dict.fromkeys(ids)
    return tuple(unique_ids)


def _locate_quotation(
    text: str, passages: Sequence[Passage], cited_ids: Sequence[str]
) -> tuple[QuotationStatus, tuple[Span, ...]]:
    """Where the words of a quotation are, the cited passages first."""
    plain_text = text.replace("...", _ELISION)
    plain_text = plain_text.replace(f"[{_ELISION}]", _ELISION)
    parts = []
    for part in plain_text.split(_ELISION):
        folded_part = fold_text(part)
        if folded_part.text:
            parts.append(part)
    cited_first = sorted(passages, key=lambda passage: passage.id not in cited_ids)
    for passage in cited_first:
        spans = _locate_parts(parts, passage)
        if spans is not None:
            is_uncited = passage.id not in cited_ids
            if cited_ids and is_uncited:
                return "misattributed", spans
            return "verbatim", spans
    folded = fold_text(text)
    folded_words = folded.text.split()
    pieces = _locate_pieces(folded_words, cited_first)
    if not pieces:
        return "nowhere", ()
    return "stitched", pieces


def _locate_parts(parts: Sequence[str], passage: Passage) -> tuple[Span, ...] | None:
    """The parts of one quotation in a passage or its header; None if it has them not.

    Several parts must be in one sentence, in their order.
    """
    if len(parts) == 1:
        only_part = parts[0]
        text_range = find_words(only_part, passage.text)
        if text_range is not None:
            part_span = Span(passage.id, *text_range)
            return (part_span,)
        header = passage_header(passage)
        header_range = find_words(only_part, header)
        if header_range is None:
            return None
        return ()
    for sentence_start, sentence_end in evidence_ranges(passage.text):
        spans = []
        position = sentence_start
        for part in parts:
            text_left = passage.text[position:sentence_end]
            part_range = find_words(part, text_left)
            if part_range is None:
                break
            start, end = part_range
            part_span = Span(passage.id, position + start, position + end)
            spans.append(part_span)
            position += end
        else:
            return tuple(spans)
    return None


def _locate_pieces(
    words: Sequence[str], passages: Sequence[Passage]
) -> tuple[Span, ...]:
    """The runs of three words or more that together are the quotation; else none."""
    spans = []
    position = 0
    while position < len(words):
        longest_run = 0
        longest_span: Span | None = None
        words_left = words[position:]
        for passage in passages:
            folded = fold_text(passage.text)
            passage_words = folded.text.split()
            word_runs = matching_runs(words_left, passage_words)
            start, end = next(word_runs, (0, 0))
            if start or end < _MIN_PIECE_WORDS or end <= longest_run:
                continue
            run_text = " ".join(words_left[:end])
            run_range = find_words(run_text, passage.text)
            if run_range is not None:
                longest_run = end
                longest_span = Span(passage.id, *run_range)
        if longest_span is None:
            return ()
        spans.append(longest_span)
        position += longest_run
    return tuple(spans)
