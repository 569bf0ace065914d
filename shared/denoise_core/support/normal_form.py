"""One normal form of a text, with offsets: what a judge is shown, and what is compared.

Evidence and answers differ in characters that no reader sees: decomposed accents, soft
hyphens, words broken at a line's end, typographic quotation marks. `normalize_text`
removes these differences; `fold_text` also removes case, punctuation and markup, to
find a quotation. Both keep where each character was.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from denoise_core.spans import Range
from denoise_core.text.delimit import WITHOUT_INVISIBLE
from denoise_core.weighted_cache import cache_by_bytes

_HYPHENS = "-\u2010\u00ad"
_UNIFIED = WITHOUT_INVISIBLE | str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("“”„‟«»〝〞", '"')
    | dict.fromkeys("‘’‚‛", "'")
)
_MEASURE_SIGNS = "%‰°+±×÷=≤≥≠≈"  # punctuation that changes what a number says
_MAX_CITED_DIGITS = 3


@dataclass(frozen=True, slots=True)
class NormalText:
    """A text in normal form.

    Attributes:
        text: The normal form.
        origin_starts: For each of its characters, where its origin begins in the original.
        origin_ends: Where that origin ends.
    """

    text: str
    origin_starts: tuple[int, ...]
    origin_ends: tuple[int, ...]

    def original_range(self, start: int, end: int) -> Range:
        """The characters of the original from which ``[start, end)`` comes."""
        return self.origin_starts[start], self.origin_ends[end - 1]


class _TextBuilder:
    """Collects characters with their origin; white space becomes single blanks."""

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.origin_starts: list[int] = []
        self.origin_ends: list[int] = []

    def add(self, text: str, start: int, end: int) -> None:
        """Add the characters that come from ``[start, end)`` of the original."""
        for character in text:
            is_blank = character.isspace()
            if is_blank and self.characters[-1:] in ([], [" "]):
                continue
            shown_character = character
            if is_blank:
                shown_character = " "
            self.characters.append(shown_character)
            self.origin_starts.append(start)
            self.origin_ends.append(end)

    def build(self) -> NormalText:
        """The text, without a blank at its end."""
        text = "".join(self.characters).rstrip()
        origin_starts = tuple(self.origin_starts)
        origin_ends = tuple(self.origin_ends)
        return NormalText(text, origin_starts, origin_ends)


def normalize_text(text: str) -> NormalText:
    r"""Bring a text into normal form. Linear in its length.

    Composed accents (NFC), no invisible characters, straight quotation marks and
    hyphens, one blank for white space, words joined that a line break divides.

    >>> normalize_text("Cafe\u0301 “at\n the cor-\nner”").text
    'Café "at the corner"'
    """
    builder = _TextBuilder()
    for start, end, shown_text in _shown_clusters(text):
        builder.add(shown_text, start, end)
    return builder.build()


def _shown_clusters(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each character with its accents: start, end, and how it is shown."""
    start = 0
    while start < len(text):
        end = _broken_word_end(text, start)
        if end:
            yield start, end, ""
            start = end
            continue
        end = start + 1
        while end < len(text) and _continues_cluster(text[end]):
            end += 1
        cluster = text[start:end]
        if not cluster.isascii():
            composed_text = unicodedata.normalize("NFC", cluster)
            cluster = composed_text.translate(_UNIFIED)
        elif not cluster.isprintable() and not cluster.isspace():
            cluster = ""
        yield start, end, cluster
        start = end


def _continues_cluster(character: str) -> bool:
    """Whether a character is an accent or a later part of a Hangul syllable."""
    if character < "\u0300":
        return False
    is_hangul_part = "\u1160" <= character <= "\u11ff"
    if is_hangul_part:
        return True
    return unicodedata.combining(character) > 0


def _broken_word_end(text: str, start: int) -> int:
    """The end of a hyphen and line break inside a word; 0 where there is none."""
    is_after_letter = start > 0 and text[start - 1].isalpha()
    if text[start] not in _HYPHENS or not is_after_letter:
        return 0
    end = start + 1
    while end < len(text) and text[end].isspace():
        end += 1
    has_line_break = "\n" in text[start:end]
    next_character = text[end : end + 1]
    if has_line_break and next_character.islower():
        return end
    return 0


@cache_by_bytes("folded texts", 16 * 2**20, bytes_per_character=60)
def fold_text(text: str) -> NormalText:
    """Fold a text to words between single blanks, for finding quotations.

    Case, punctuation, markup, hyphens inside words and numbers in brackets (citations)
    are left out; signs that change a number stay.

    >>> fold_text("The **Well-known** tower[3], 5.5 %").text
    'the wellknown tower 5.5 %'
    """
    normal = normalize_text(text)
    builder = _TextBuilder()
    skipped_end = 0
    for position in range(len(normal.text)):
        if position < skipped_end:
            continue
        skipped_end = _bracketed_number_end(normal.text, position)
        folded = _fold_character(normal.text, position)
        start, end = normal.original_range(position, position + 1)
        builder.add(folded, start, end)
    return builder.build()


def _bracketed_number_end(text: str, position: int) -> int:
    """The end of a number in brackets that begins here; 0 where there is none."""
    if text[position] != "[":
        return 0
    closing = text.find("]", position, position + _MAX_CITED_DIGITS + 2)
    if closing < 0:
        return 0
    inner_text = text[position + 1 : closing]
    if not inner_text.isdecimal():
        return 0
    return closing + 1


def _fold_character(text: str, position: int) -> str:
    """A character of a normal form as it is compared; a blank for punctuation."""
    character = text[position]
    category = unicodedata.category(character)
    if category[0] in "LNM":
        return character.casefold()
    before = text[position - 1 : position]
    after = text[position + 1 : position + 2]
    if character in "-'" and before.isalpha() and after.isalpha():
        return ""
    if category == "Sc" or character in _MEASURE_SIGNS:
        return character
    if character == "<":  # less than: a number follows, perhaps behind a blank
        after = text[position + 1 : position + 3].lstrip()[:1]
        changes_number = True
    elif character == "-":
        changes_number = not before.isalnum()
    else:
        changes_number = character in ".,:/" and before.isdecimal()
    if changes_number and after.isdecimal():
        return character
    return " "


def find_words(words: str, text: str) -> Range | None:
    """The first range of ``text`` that has the words, compared folded; else None.

    A range begins and ends at the edge of a word.
    """
    folded_words = fold_text(words).text
    folded = fold_text(text)
    if not folded_words:
        return None
    position = folded.text.find(folded_words)
    while position >= 0:
        end = position + len(folded_words)
        begins_at_edge = is_word_edge(folded.text, position)
        ends_at_edge = is_word_edge(folded.text, end)
        if begins_at_edge and ends_at_edge:
            return folded.original_range(position, end)
        position = folded.text.find(folded_words, position + 1)
    return None


def is_word_edge(folded_text: str, position: int) -> bool:
    """Whether a word begins or ends here; in scripts without blanks, anywhere."""
    if not 0 < position < len(folded_text):
        return True
    sides = folded_text[position - 1 : position + 1]
    if " " in sides:
        return True
    return any(map(is_unspaced, sides))


def is_unspaced(character: str) -> bool:
    """Whether a character is of a script without blanks: Thai, Khmer, Chinese ..."""
    is_south_east_asian = "\u0e00" <= character <= "\u109f"
    is_khmer = "\u1780" <= character <= "\u17ff"
    is_east_asian = character >= "\u2e80"
    return is_south_east_asian or is_khmer or is_east_asian
