"""Which later chunk says something about what an earlier one names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from string import punctuation

from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS, TextChunk

_MIN_IDENTIFIER = 4  # characters; "A4" or "3rd" names no decision, part or ticket


def later_references(text: str, chunks: Sequence[TextChunk]) -> dict[int, list[int]]:
    """Return for chunks the later ones that name the same identifier.

    An identifier links two chunks if no third one names it: "D-25-09 replaces D-25-01"
    must not be lost with the decision.

    Returns:
        Indices by index, of short chunks only.
    """
    namers: defaultdict[str, list[int]] = defaultdict(list)
    for index, chunk in enumerate(chunks):
        if chunk.is_structural or chunk.length > MAX_CHUNK_CHARACTERS:
            continue
        for identifier in find_identifiers(chunk.text_of(text)):
            namers[identifier].append(index)
    references: defaultdict[int, list[int]] = defaultdict(list)
    for indices in namers.values():
        if len(indices) == 2:
            earlier, later = indices
            references[earlier].append(later)
    return references


def find_identifiers(text: str) -> set[str]:
    """Return the words that have letters and digits, such as ``D-25-01``."""
    words = {word.strip(punctuation) for word in text.split()}
    return set(filter(_is_identifier, words))


def _is_identifier(word: str) -> bool:
    if len(word) < _MIN_IDENTIFIER:
        return False
    has_digit = any(map(str.isdigit, word))
    has_letter = any(map(str.isalpha, word))
    return has_digit and has_letter
