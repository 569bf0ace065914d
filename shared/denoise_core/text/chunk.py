"""Cut a passage into spans that tile it: joined in order, they give the text back.

Sentence boundaries come from `sentencex <https://github.com/wikimedia/sentencex>`_:
rules for some 300 languages, with abbreviations, decimals, ellipses, CJK and
right-to-left scripts.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from denoise_core.cancellation import stop_if_abandoned
from denoise_core.errors import ContractViolation, InputError
from denoise_core.spans import (
    Ranges,
    join_spans,
    merge_spans,
    passage_spans,
    tile_spans,
)
from denoise_core.types import Passage, Span, replace_surrogates

Chunker: TypeAlias = Callable[[Passage], Sequence[Span]]

# The splitter panics on a capital, a multi-byte space and a full stop: it counts such
# a space as one byte. It sees a plain space instead.
_WIDE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_NARROW_SPACES = dict.fromkeys(map(ord, _WIDE_SPACES), " ")

# The splitter's time grows faster than the text, and no other thread runs meanwhile,
# so it gets this many characters.
_BLOCK_CHARACTERS = 4_000

# A unit after a number is no abbreviation: "330 m. It is old." On rewrites made by
# people (s2a_by_hand) this raised the needed sentences shown from 28 to 29 of 29.
_UNIT_BEFORE_STOP = re.compile(
    r"\d\s?(?:[kcmµ]?m|[mk]?g|ml|l|t|s|h|ha|[kMG]?W|[kMGT]B|°C|%)"
    r"\.\s{1,9}(?=[\"“(]?[A-Z])"
)


def no_chunking(passage: Passage) -> tuple[Span, ...]:
    """Return the passage as one chunk; an empty passage is one empty chunk."""
    return (Span(passage.id, 0, len(passage.text)),)


def sentence_spans(passage: Passage, *, language: str = "en") -> tuple[Span, ...]:
    """Return the sentences of a passage, each with the white space after it.

    Args:
        passage: An empty text has no sentences.
        language: ISO 639-1 code, which decides abbreviations. Sentence marks of all
            scripts, and line breaks, end a sentence in every language.
    """
    ranges = sentence_ranges(passage.text, language=language)
    return passage_spans(passage.id, ranges)


def sentence_ranges(
    text: str,
    start: int = 0,
    end: int = sys.maxsize,
    *,
    language: str = "en",
) -> Ranges:
    """Return the sentences of ``text[start:end]`` as ranges of ``text``."""
    text_end = min(end, len(text))
    boundaries = _sentence_boundaries(text, start, text_end, language)
    pieces = tile_spans(boundaries, start, text_end)
    sentence_starts = [first for first, after in pieces if text[first:after].strip()]
    # Blank lines belong to the sentence before them.
    return tile_spans(sentence_starts[1:], start, text_end)


def sentence_chunker(max_characters: int = 1000) -> Chunker:
    """Return a chunker that packs whole sentences into chunks.

    Args:
        max_characters: Largest chunk. A longer sentence is cut at white space, or
            anywhere if it has none.

    Raises:
        InputError: For ``max_characters < 1``.
    """
    if max_characters < 1:
        raise InputError(f"max_characters={max_characters}: expected 1 or more")

    def chunk_passage(passage: Passage) -> tuple[Span, ...]:
        ranges = pack_sentences(passage.text, max_characters, 0, len(passage.text))
        return passage_spans(passage.id, ranges)

    return chunk_passage


def pack_sentences(text: str, max_characters: int, start: int, end: int) -> Ranges:
    """Pack the sentences of ``text[start:end]`` into ranges of so many characters."""
    boundaries = []
    chunk_start = chunk_end = start
    for _, sentence_end in sentence_ranges(text, start, end):
        if sentence_end - chunk_start > max_characters and chunk_end > chunk_start:
            boundaries.append(chunk_end)
            chunk_start = chunk_end
        while sentence_end - chunk_start > max_characters:
            limit = chunk_start + max_characters
            chunk_start = _last_break(text, chunk_start, limit)
            boundaries.append(chunk_start)
        chunk_end = sentence_end
    return tile_spans(boundaries, start, end)


def extract_spans(passage: Passage, kept_spans: Iterable[Span]) -> Passage | None:
    """Return ``passage`` with only these spans, in the order of its text.

    Args:
        passage: May be the result of an earlier step.
        kept_spans: Ranges of ``passage.text`` as it is now. Neighbours are merged.

    Returns:
        None if nothing is kept; a passage with empty ``spans`` if all is kept.
    """
    ranges = merge_spans([(span.start, span.end) for span in kept_spans])
    if not ranges:
        return None
    if ranges == [(0, len(passage.text))]:
        if not passage.spans and not passage.is_rewritten:
            return passage
        return replace(passage, spans=(), is_rewritten=False)
    return replace(
        passage,
        is_rewritten=False,
        text=join_spans(passage.text, ranges),
        spans=passage_spans(passage.id, ranges),
    )


def _sentence_boundaries(text: str, start: int, end: int, language: str) -> list[int]:
    """Find sentence ends block by block.

    A sentence that a block cuts off is read again at the start of the next block.
    """
    boundaries = []
    while start < end:
        stop_if_abandoned()
        block_end = end
        if end - start > _BLOCK_CHARACTERS:
            block_end = _last_break(text, start, start + _BLOCK_CHARACTERS)
        block_size = block_end - start
        cuts = _split_block(text[start:block_end], language)
        inner_ends = [start + cut for cut in cuts if 0 < cut < block_size]
        if block_end < end and inner_ends:
            block_end = max(inner_ends)
        boundaries += [*inner_ends, block_end]
        start = block_end
    return boundaries


def _last_break(text: str, start: int, limit: int) -> int:
    """Return the last position in ``(start, limit]`` after white space, or limit."""
    for separator in ("\n", " ", "\t"):
        position = text.rfind(separator, start, limit)
        if position >= start:
            return position + 1
    return limit


def _split_block(block_text: str, language: str) -> list[int]:
    """Return the positions after each sentence and line break of a block."""
    # Compiled and without stubs; a passage that is one chunk does not need it.
    splitter: Any = importlib.import_module("sentencex")
    readable_text = replace_surrogates(block_text).translate(_NARROW_SPACES)
    try:
        sentences = splitter.get_sentence_boundaries(language, readable_text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # A panic of compiled code is no `Exception`: it would pass every error
        # policy and end the process.
        raise ContractViolation(
            f"the sentence splitter failed on {len(block_text)} characters: {error}"
        ) from error
    sentence_ends = [sentence["end_index"] for sentence in sentences]
    sentence_ends += [match.end() for match in _UNIT_BEFORE_STOP.finditer(block_text)]
    return sentence_ends + [match.end() for match in re.finditer("\n", block_text)]
