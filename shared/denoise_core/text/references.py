"""Which later chunk says something about what an earlier one names."""

from __future__ import annotations

from collections.abc import Sequence
from string import punctuation

from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS, TextChunk

_MIN_IDENTIFIER = 4  # characters; "A4" or "3rd" names no decision, part or ticket


def later_references(text: str, chunks: Sequence[TextChunk]) -> dict[int, list[int]]:
    """Return for chunks the later ones that name the same identifier.

    An identifier has letters and digits, such as ``D-25-01``. It links two chunks if no
    third one names it: "D-25-09 replaces D-25-01" must not be lost with the decision.

    Returns:
        Indices by index, of short chunks only.
    """
    namers: dict[str, list[int]] = {}
    for index, chunk in enumerate(chunks):
        is_long = chunk.length > MAX_CHUNK_CHARACTERS
        if chunk.is_structural or is_long:
            continue
        words = set()
        chunk_text = chunk.text_of(text)
        chunk_words = chunk_text.split()
        for chunk_word in chunk_words:
            bare_word = chunk_word.strip(punctuation)
            words.add(bare_word)
        for word in filter(_is_identifier, words):
            word_namers = namers.setdefault(word, [])
            word_namers.append(index)
    references: dict[int, list[int]] = {}
    for indices in namers.values():
        if len(indices) == 2:
            earlier, later = indices
            later_indices = references.setdefault(earlier, [])
            later_indices.append(later)
    return references


def _is_identifier(word: str) -> bool:
    if len(word) < _MIN_IDENTIFIER:
        return False
    has_digit = any(map(str.isdigit, word))
    has_letter = any(map(str.isalpha, word))
    return has_digit and has_letter
