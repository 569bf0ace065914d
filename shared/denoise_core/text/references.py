"""Which later chunk says something about what an earlier one names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS, TextChunk

_WORD = re.compile(r"\w+(?:[-.:/]\w+)*")
_MIN_IDENTIFIER = 4  # characters; "A4" or "3rd" names no decision, part or ticket


def later_references(text: str, chunks: Sequence[TextChunk]) -> Mapping[int, list[int]]:
    """Return for chunks the later ones that name the same identifier.

    An identifier has letters and digits, such as ``D-25-01``. It links two chunks if no
    third one names it: "D-25-09 replaces D-25-01" must not be lost with the decision.

    Returns:
        Indices by index, of short chunks only.
    """
    namers: dict[str, list[int]] = {}
    for index, chunk in enumerate(chunks):
        if chunk.is_structural or chunk.length > MAX_CHUNK_CHARACTERS:
            continue
        for word in set(_WORD.findall(chunk.text_of(text))):
            if _is_identifier(word):
                namers.setdefault(word, []).append(index)
    references: dict[int, list[int]] = {}
    for indices in namers.values():
        if len(indices) == 2:
            references.setdefault(indices[0], []).append(indices[1])
    return references


def _is_identifier(word: str) -> bool:
    if len(word) < _MIN_IDENTIFIER:
        return False
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))
