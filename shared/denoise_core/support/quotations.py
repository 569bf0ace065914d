"""Check an answer's quotations and citations by code, without a model.

A quotation is text between quotation marks or in a block quote. Its words are in a
passage or they are not: that needs no judgement, and it says nothing of whether the
sentence around them is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from denoise_core.spans import Range, Ranges
from denoise_core.support.answers import AnswerUnit, parse_answer
from denoise_core.support.citing import Citation, find_citations, matching_runs
from denoise_core.support.judging import Quotation, QuotationStatus
from denoise_core.support.labels import evidence_ranges, passage_header
from denoise_core.support.layout import (
    blank_ranges,
    line_starts,
    markdown_tokens,
    normalize_line_breaks,
    trim_range,
)
from denoise_core.support.normal_form import find_words, fold_text
from denoise_core.types import Passage, Span

MIN_WORDS = 3  # fewer in quotation marks are a title, a term or irony
_MIN_PIECE_WORDS = 3  # of one piece of a stitched quotation
_MAX_CHARACTERS = 2000  # of a quotation in marks; else each open mark reads to the end
_CLOSING_MARKS = {
    '"': '"',
    "“": "”",
    "„": "“”",
    "«": "»",
    "‘": "’",
    "「": "」",
    "『": "』",
}
_SKIPPED_KINDS = frozenset(("code", "field", "reasoning"))
_ELISION = "…"


def check_quotations(answer: str, passages: Sequence[Passage]) -> tuple[Quotation, ...]:
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

    Returns:
        The quotations in order. What is `verbatim` is proven; nothing here says that a
        sentence is supported.
    """
    parsed_answer = parse_answer(answer, ids=[passage.id for passage in passages])
    citations = find_citations(answer, passages)
    skipped_ranges = [
        (unit.start, unit.end)
        for unit in parsed_answer.units
        if unit.kind in _SKIPPED_KINDS
    ]
    clean_text = blank_ranges(normalize_line_breaks(answer), skipped_ranges)
    quoted_ranges = list(_quoted_ranges(clean_text))
    quotations = []
    for start, end in quoted_ranges:
        if _count_words(clean_text[start:end]) >= MIN_WORDS:
            cited_ids = _ids_cited_for(start, end, parsed_answer.units, citations)
            status, spans = _locate_quotation(answer[start:end], passages, cited_ids)
            quotation = Quotation(answer[start:end], start, end, status, spans)
            quotations.append(quotation)
    for citation in citations:
        if citation.unknown:
            text = answer[citation.start : citation.end]
            quotation = Quotation(text, citation.start, citation.end, "nowhere")
            quotations.append(quotation)
    for unit in parsed_answer.units:
        if not unit.citations or _count_words(unit.text) < MIN_WORDS:
            continue
        is_quoting = any(unit.start <= start < unit.end for start, _ in quoted_ranges)
        if not is_quoting:
            cited_ids = _ids_cited_for(unit.start, unit.end, [unit], citations)
            status, spans = _locate_quotation(unit.text, passages, cited_ids)
            if status in ("verbatim", "misattributed"):
                text = answer[unit.start : unit.end]
                quotations.append(Quotation(text, unit.start, unit.end, status, spans))
    return tuple(sorted(quotations, key=lambda quotation: quotation.start))


def _count_words(text: str) -> int:
    """Words; of scripts without blanks, characters."""
    count = 0
    for word in fold_text(text).text.split():
        count += len(word) if max(word) >= "\u0e00" else 1
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
            yield position + 1, end
            position = end
        position += 1


def _block_quotes(text: str) -> Iterator[Range]:
    """The paragraphs of block quotes, without a last line that names the source."""
    line_offsets = line_starts(text)
    depth = 0
    for token in markdown_tokens(text):
        if token.type == "blockquote_open":
            depth += 1
        elif token.type == "blockquote_close":
            depth -= 1
        elif token.type == "inline" and depth and token.map:
            first_line, last_line = token.map
            last_text = text[
                line_offsets[last_line - 1] : line_offsets[last_line]
            ].lstrip("> \t")
            if last_text.startswith(("-", "–", "—")) and last_line > first_line + 1:
                last_line -= 1
            yield trim_range(text, line_offsets[first_line], line_offsets[last_line])


def _closing_position(text: str, position: int) -> int:
    """Where the quotation ends whose mark is at ``position``; 0 where none begins."""
    closing_marks = _CLOSING_MARKS.get(text[position], "")
    before = text[position - 1 : position]
    after = text[position + 1 : position + 2]
    if not closing_marks or before.isalnum() or not after.strip():
        return 0
    limit = min(position + _MAX_CHARACTERS, len(text))
    paragraph_end = text.find("\n\n", position, limit)
    if paragraph_end < 0:
        paragraph_end = limit
    for end in range(position + 1, paragraph_end):
        is_closing = text[end] in closing_marks and not text[end - 1].isspace()
        if is_closing and not text[end + 1 : end + 2].isalnum():
            return end
    return 0


def _ids_cited_for(
    start: int,
    end: int,
    units: Sequence[AnswerUnit],
    citations: Sequence[Citation],
) -> tuple[str, ...]:
    """The passages cited in the units that ``[start, end)`` reaches."""
    ranges: Ranges = []
    for unit in units:
        if unit.start < end and start < unit.end:
            ranges += unit.citations
    ids: list[str] = []
    for citation in citations:
        if (citation.start, citation.end) in ranges:
            ids += citation.ids
    return tuple(dict.fromkeys(ids))


def _locate_quotation(
    text: str, passages: Sequence[Passage], cited_ids: Sequence[str]
) -> tuple[QuotationStatus, tuple[Span, ...]]:
    """Where the words of a quotation are, the cited passages first."""
    plain_text = text.replace("...", _ELISION).replace(f"[{_ELISION}]", _ELISION)
    parts = [part for part in plain_text.split(_ELISION) if fold_text(part).text]
    cited_first = sorted(passages, key=lambda passage: passage.id not in cited_ids)
    for passage in cited_first:
        spans = _locate_parts(parts, passage)
        if spans is not None:
            is_cited = not cited_ids or passage.id in cited_ids
            return "verbatim" if is_cited else "misattributed", spans
    pieces = _locate_pieces(fold_text(text).text.split(), cited_first)
    return ("stitched", pieces) if pieces else ("nowhere", ())


def _locate_parts(parts: Sequence[str], passage: Passage) -> tuple[Span, ...] | None:
    """The parts of one quotation in a passage or its header; None if it has them not.

    Several parts must be in one sentence, in their order.
    """
    if len(parts) == 1:
        span = find_words(parts[0], passage.text)
        if span is not None:
            return (Span(passage.id, *span),)
        is_in_header = find_words(parts[0], passage_header(passage)) is not None
        return () if is_in_header else None
    for sentence_start, sentence_end in evidence_ranges(passage.text):
        spans = []
        position = sentence_start
        for part in parts:
            part_range = find_words(part, passage.text[position:sentence_end])
            if part_range is None:
                break
            start, end = part_range
            spans.append(Span(passage.id, position + start, position + end))
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
        for passage in passages:
            run_length, span = _longest_run(words[position:], passage)
            if run_length > longest_run:
                longest_run, longest_span = run_length, span
        if longest_span is None:
            return ()
        spans.append(longest_span)
        position += longest_run
    return tuple(spans)


def _longest_run(words: Sequence[str], passage: Passage) -> tuple[int, Span | None]:
    """How many of the first words a passage has in a row, at least three, and where."""
    passage_words = fold_text(passage.text).text.split()
    first_run = next(matching_runs(words, passage_words), (0, 0))
    run_length = first_run[1] - first_run[0]
    if first_run[0] != 0 or run_length < _MIN_PIECE_WORDS:
        return 0, None
    run_range = find_words(" ".join(words[:run_length]), passage.text)
    if run_range is None:
        return 0, None
    return run_length, Span(passage.id, *run_range)
