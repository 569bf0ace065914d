"""Cut a passage into spans that tile it: joined in order, their texts give the text back.

Sentence boundaries come from `sentencex <https://github.com/wikimedia/sentencex>`_ (rules for some 300
languages: abbreviations, decimals, ellipses, CJK and right-to-left scripts).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from denoise_core.errors import ContractViolation, InputError
from denoise_core.spans import join_spans, merge_in_passage, tile_passage
from denoise_core.types import Passage, Span, replace_surrogates

Chunker: TypeAlias = Callable[[Passage], Sequence[Span]]

# White space of several bytes, which the splitter takes for one: a capital, such a space and a full stop broke it.
_WIDE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
_NARROWED = dict.fromkeys(map(ord, _WIDE_SPACES), " ")
_BLOCK = 20_000  # characters given to the splitter at once: its time grows faster than the text


def no_chunking(passage: Passage) -> tuple[Span, ...]:
    """The passage as one chunk; an empty passage is one empty chunk."""
    return (Span(passage.id, 0, len(passage.text)),)


def sentence_spans(passage: Passage, *, language: str = "en") -> tuple[Span, ...]:
    """Sentences with the white space that follows them; none for an empty text.

    ``language`` is an ISO 639-1 code; it decides abbreviations. Sentence marks of all scripts count in
    every language, and so does a line break.
    """
    cuts = _sentence_cuts(passage.text, language)
    spans = tile_passage(passage.id, len(passage.text), cuts)
    starts = [s.start for s in spans if passage.text[s.start : s.end].strip()]
    return tile_passage(
        passage.id, len(passage.text), starts[1:]
    )  # blank lines go with what stands before them


def sentence_chunker(max_characters: int = 1000, *, language: str = "en") -> Chunker:
    """A chunker that packs whole sentences into chunks of at most ``max_characters``.

    A longer sentence is cut at white space, or where it must be when it has none.
    Raises `InputError` for ``max_characters < 1``.
    """
    if max_characters < 1:
        raise InputError(f"max_characters={max_characters}: expected 1 or more")

    def cut(passage: Passage) -> tuple[Span, ...]:
        ends: list[int] = []
        start = end = 0
        for sentence in sentence_spans(passage, language=language):
            if sentence.end - start > max_characters and end > start:
                ends.append(end)
                start = end
            while sentence.end - start > max_characters:
                start = _break(passage.text, start, start + max_characters)
                ends.append(start)
            end = sentence.end
        return tile_passage(passage.id, len(passage.text), ends)

    return cut


def extract_spans(passage: Passage, keep: Iterable[Span]) -> Passage | None:
    """``passage`` with only the spans in ``keep``, in the text's order; None when nothing is left.

    Neighbouring spans are merged. All of it kept gives the passage with ``spans`` empty. Spans name the
    characters of ``passage`` as it is given here, also when it is itself the result of an earlier step.
    """
    merged = merge_in_passage(passage.id, keep)
    if not merged:
        return None
    if merged == (Span(passage.id, 0, len(passage.text)),):
        return (
            replace(passage, spans=(), is_rewritten=False)
            if passage.spans or passage.is_rewritten
            else passage
        )
    text = join_spans(passage.text, ((s.start, s.end) for s in merged))
    return replace(passage, is_rewritten=False, text=text, spans=merged)


def _sentence_cuts(text: str, language: str) -> list[int]:
    """Where sentences end, found block by block; a sentence that a block cuts off is read again in the next."""
    cuts: list[int] = []
    start = 0
    while start < len(text):
        end = (
            len(text)
            if len(text) - start <= _BLOCK
            else _break(text, start, start + _BLOCK)
        )
        ends = _sentence_ends(text[start:end], start, language)
        inner = [e for e in ends if start < e < end]
        if end < len(text) and inner:
            end = max(inner)
        cuts += [*inner, end]
        start = end
    return cuts


def _break(text: str, start: int, limit: int) -> int:
    """The last place in ``(start, limit]`` after white space, or ``limit`` if there is none."""
    for mark in ("\n", " ", "\t"):
        at = text.rfind(mark, start, limit)
        if at >= start:
            return at + 1
    return limit


# A unit behind a number is no abbreviation: "330 m. It is old." On rewrites by another hand (s2a_by_hand) 28 of 29
# needed sentences were shown, and then 29.
_MEASURED = re.compile(
    r"\d\s?(?:[kcmµ]?m|[mk]?g|ml|l|t|s|h|ha|[kMG]?W|[kMGT]B|°C|%)\.\s{1,9}(?=[\"“(]?[A-Z])"
)


def _sentence_ends(text: str, offset: int, language: str) -> list[int]:
    splitter: Any = importlib.import_module(
        "sentencex"
    )  # compiled, without stubs; not needed by whole passages
    shown = replace_surrogates(text).translate(_NARROWED)
    try:
        found = splitter.get_sentence_boundaries(language, shown)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # A panic of compiled code is no `Exception`: it would end the process through every policy.
        raise ContractViolation(
            f"the sentence splitter broke on a text of {len(text)} characters: {error}"
        ) from error
    ends = [offset + b["end_index"] for b in found]
    ends += [offset + m.end() for m in _MEASURED.finditer(text)]
    lines = [offset + i + 1 for i, c in enumerate(text) if c == "\n"]
    return ends + lines
