"""One normal form of a text, with offsets: what a judge is shown, and what is compared.

Evidence and answers differ in characters that no reader sees: decomposed accents, soft
hyphens, words broken at a line's end, typographic quotation marks. `normalize_text`
removes these differences; `fold_text` also removes case, punctuation and markup, to
find a quotation. Both keep where each character was.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from denoise_core.spans import Range
from denoise_core.text.delimit import WITHOUT_INVISIBLE
from denoise_core.weighted_cache import cache_by_bytes

# A hyphen and a line break inside a word.
_WORD_BREAK = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad](?=\s*\n)\s+(?=\S)")
_CITED_NUMBER = re.compile(r"\[\d{1,3}\]")
_UNIFIED_HYPHENS = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
_UNIFIED_QUOTES = dict.fromkeys("“”„‟«»〝〞", '"')
_UNIFIED_APOSTROPHES = dict.fromkeys("‘’‚‛", "'")
_UNIFIED_MARKS = _UNIFIED_HYPHENS | _UNIFIED_QUOTES | _UNIFIED_APOSTROPHES
_UNIFIED = WITHOUT_INVISIBLE | str.maketrans(_UNIFIED_MARKS)
_MEASURE_SIGNS = "%‰°+±×÷=≤≥≠≈"  # punctuation that changes what a number says


@dataclass(frozen=True, slots=True)
class NormalText:
    """A text in normal form.

    Attributes:
        text: The normal form.
        origin_starts: For each of its characters, where what it comes from begins in the
            original.
        origin_ends: Likewise, where that ends.
    """

    text: str
    origin_starts: array[int]
    origin_ends: array[int]

    def original_range(self, start: int, end: int) -> Range:
        """The characters of the original from which ``[start, end)`` comes."""
        return self.origin_starts[start], self.origin_ends[end - 1]


def _build_text(clusters: Iterable[tuple[Range, str]]) -> NormalText:
    """Join what is shown of each range; white space becomes single blanks."""
    characters: list[str] = []
    origin_starts = array("I")
    origin_ends = array("I")
    for (start, end), shown_text in clusters:
        for character in shown_text:
            is_blank = character.isspace()
            if is_blank and characters[-1:] in ([], [" "]):
                continue
            characters.append(" " if is_blank else character)
            origin_starts.append(start)
            origin_ends.append(end)
    text = "".join(characters).rstrip()
    return NormalText(text, origin_starts, origin_ends)


def normalize_text(text: str) -> NormalText:
    r"""Bring a text into normal form. Linear in its length.

    Composed accents (NFC), no invisible characters, straight quotation marks and
    hyphens, one blank for white space, words joined that a line break divides.

    >>> normalize_text("Cafe\u0301 “at\n the cor-\nner”").text
    'Café "at the corner"'
    """
    return _build_text(_shown_clusters(text))


def _shown_clusters(text: str) -> Iterator[tuple[Range, str]]:
    """Yield each character with its accents: its range, and how it is shown."""
    start = 0
    while start < len(text):
        broken_word = _WORD_BREAK.match(text, start)
        if broken_word:
            next_start = broken_word.end()
            if text[next_start].islower():
                yield broken_word.span(), ""
                start = next_start
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
        yield (start, end), cluster
        start = end


def _continues_cluster(character: str) -> bool:
    """Whether a character is an accent or a later part of a Hangul syllable."""
    if character < "\u0300":
        return False
    if "\u1160" <= character <= "\u11ff":
        return True
    return unicodedata.combining(character) > 0


# Every quotation is looked for in the same passages: all of a large request's fit.
@cache_by_bytes("folded texts", 16 * 2**20, bytes_per_character=16)
def fold_text(text: str) -> NormalText:
    """Fold a text to words between single blanks, for finding quotations.

    Case, punctuation, markup, hyphens inside words and numbers in brackets (citations)
    are left out; signs that change a number stay.

    >>> fold_text("The **Well-known** tower[3], 5.5 %").text
    'the wellknown tower 5.5 %'
    """
    normal = normalize_text(text)
    visible_text = _CITED_NUMBER.sub(_blank_match, normal.text)
    positions = range(len(visible_text))
    folded_characters = [_fold_character(visible_text, n) for n in positions]
    origins = zip(normal.origin_starts, normal.origin_ends, strict=True)
    folded_clusters = zip(origins, folded_characters, strict=False)
    return _build_text(folded_clusters)


def _blank_match(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _fold_character(text: str, position: int) -> str:
    """A character of a normal form as it is compared; a blank for punctuation."""
    character = text[position]
    category = unicodedata.category(character)
    if category[0] in "LNM":
        return character.casefold()
    next_position = position + 1
    before = text[position - 1 : position]
    after = text[next_position : next_position + 1]
    if character in "-'":
        is_inside_word = before.isalpha() and after.isalpha()
        if is_inside_word:
            return ""
    if category == "Sc" or character in _MEASURE_SIGNS:
        return character
    if character == "<":  # less than: a number follows, perhaps behind a blank
        after = text[next_position : next_position + 2].lstrip()[:1]
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
