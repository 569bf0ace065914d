"""What an answer takes from its passages: citations, and word-for-word quotations.

One resolver serves all that reads citations: a number counts the passages as they were
shown, from 1; only what is no such number is looked up among their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from denoise_core.spans import Range
from denoise_core.types import Passage

BRACKETED = re.compile(r"\[([^\[\]\n]{1,80})\]|【([^】\n]{1,40})】")
"""What a citation may be."""
_CITATION_NUMBERS = re.compile(
    r"\^?(?:[^\W\d]{1,9}\.?\s)?(\d{1,3})(?:\s{0,3}[–-]\s{0,3}(\d{1,3}))?(?:†[^,;]*)?$"
)
_MAX_RANGE = 50
_MAX_STARTS = 50  # occurrences of a word tried as the start of a quotation


@dataclass(frozen=True, slots=True)
class Citation:
    """``[start, end)`` of the answer names the passages ``ids``.

    ``unknown`` are names of no passage.
    """

    start: int
    end: int
    ids: tuple[str, ...]
    unknown: tuple[str, ...]


def find_citations(answer: str, passages: Sequence[Passage]) -> list[Citation]:
    """Find the citations of an answer.

    ``[1]``, ``[2, 4-6]``, ``[doc 3]`` and ``【1†source】`` count the passages, ``[2.3]``
    is a label of the second one; ``[id]`` names one by its id. Brackets with anything
    else, and those in code, cite nothing. A year of four digits counts none.
    """
    passage_ids = {passage.id for passage in passages}
    code_matches = re.finditer(r"`[^`\n]*`", answer)
    code_ranges = [match.span() for match in code_matches]
    citations: list[Citation] = []
    for match in BRACKETED.finditer(answer):
        position = match.start()
        if any(start <= position < end for start, end in code_ranges):
            continue
        cited_ids: list[str] = []
        unknown_names: list[str] = []
        inner_text = match[1] or match[2]
        parts = re.split(r"[,;]", inner_text)
        for part in parts:
            name = part.strip()
            numbers = _citation_numbers(name)
            last_number = numbers.stop - 1
            is_in_range = numbers.start > 0 and last_number <= len(passages)
            if numbers and (is_in_range or name not in passage_ids):
                for number in numbers:
                    if 1 <= number <= len(passages):
                        passage = passages[number - 1]
                        cited_ids.append(passage.id)
                    else:
                        unknown_names.append(f"[{number}]")
            elif name in passage_ids:
                cited_ids.append(name)
            elif 1 <= (number := _labelled_passage(name)) <= len(passages):
                cited_ids.append(passages[number - 1].id)
            else:
                break  # words in brackets
        else:
            start, end = match.span()
            unique_ids = tuple(dict.fromkeys(cited_ids))
            unknown = tuple(unknown_names)
            citation = Citation(start, end, unique_ids, unknown)
            citations.append(citation)
    return citations


def cited_numbers(answer: str, count: int) -> tuple[int, ...]:
    """The numbers that cite one of ``count`` passages, in order of first mention."""
    passages = []
    for number in range(1, count + 1):
        passage = Passage("", f"\0{number}")
        passages.append(passage)
    numbers: dict[int, None] = {}
    for citation in find_citations(answer, passages):
        for passage_id in citation.ids:
            cited_number = int(passage_id[1:])
            numbers[cited_number] = None
    return tuple(numbers)


def remove_citations(answer: str) -> str:
    """The answer without numbers in brackets."""
    number = r"\d{1,3}(?:\.\d{1,3})?"
    separator = r"\s{0,9}[,;–-]\s{0,9}"
    citation = rf"\s?\[{number}(?:{separator}{number})*\]"
    return re.sub(citation, "", answer)


def _labelled_passage(name: str) -> int:
    """The number of the passage in a label such as ``2.3``; 0 for another name."""
    number, _, sentence = name.partition(".")
    has_numbers = number.isdecimal() and sentence.isdecimal()
    if not has_numbers or len(name) > 7:
        return 0
    return int(number)


def _citation_numbers(name: str) -> range:
    match = _CITATION_NUMBERS.match(name)
    if match is None:
        return range(0)
    low = int(match[1])
    high = int(match[2] or low)
    last_number = min(high, low + _MAX_RANGE)
    return range(low, last_number + 1)


def matching_runs(words: Sequence[str], source_words: Sequence[str]) -> Iterator[Range]:
    """Half-open ranges of ``words`` that occur in ``source_words`` word for word.

    Greedy: the longest run from the first word, then from behind it.
    """
    source_positions: dict[str, list[int]] = {}
    for position, word in enumerate(source_words):
        same_positions = source_positions.setdefault(word, [])
        same_positions.append(position)
    offset = 0
    while offset < len(words):
        longest_run = 0
        first_word = words[offset]
        word_positions = source_positions.get(first_word, [])
        for position in word_positions[:_MAX_STARTS]:
            run_length = _common_length(words, offset, source_words, position)
            longest_run = max(longest_run, run_length)
        if longest_run:
            run_end = offset + longest_run
            yield offset, run_end
        offset += max(longest_run, 1)


def _common_length(
    words: Sequence[str], offset: int, source_words: Sequence[str], position: int
) -> int:
    """How many words from ``offset`` equal those from ``position`` of the source."""
    words_left = len(words) - offset
    source_words_left = len(source_words) - position
    limit = min(words_left, source_words_left)
    length = 0
    while length < limit and words[offset + length] == source_words[position + length]:
        length += 1
    return length
