"""Words that turn a statement round: directions and other opposites, how much, how sure, who says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.kinds.senselists import (
    DOUBTED,
    MODALS,
    NO_SUPERLATIVE,
    OF_LANGUAGE,
    PAIRS,
    QUANTITIES,
    SURE,
)
from denoise_core.text.lexemes import Lexeme

_SIDES: dict[str, list[tuple[int, int]]] = {}
for _n, _pair in enumerate(PAIRS.split(";")):
    for _side, _words in enumerate(_pair.split("|")):
        for _word in _words.split():
            _SIDES.setdefault(_word, []).append((_n, _side))
_QUANTITY = {w: sense for sense, words in QUANTITIES.items() for w in words}
_MODAL = {w: sense for sense, words in MODALS.items() for w in words}

Sense = Literal["direction", "quantity", "modality", "attribution", "degree"]


def senses(found: Sequence[Lexeme], language: str) -> list[Fact]:
    """Facts of the kinds direction, quantity, modality, attribution and degree."""
    out: list[Fact] = []
    for i, x in enumerate(found):
        if x.shape != "word":
            continue
        word = x.lower
        if word in OF_LANGUAGE and language and language not in OF_LANGUAGE[word]:
            continue
        before = found[i - 1].lower if i else ""
        if (
            (word in _SIDES or word in _QUANTITY)
            and word in ("least", "most", "more", "less", "fewer", "más", "menos")
            and (before in ("at", "al", "como", "or", "no", "not") or _than(found, i))
        ):
            continue
        for pair, side in _SIDES.get(word, ()):
            out.append(Fact("direction", f"{pair}{'+-'[side]}", x.start, x.end))
        several = i + 1 < len(found) and found[i + 1].lower in _QUANTITY  # only some, almost all
        if word in _QUANTITY and not several:
            out.append(Fact("quantity", _QUANTITY[word], x.start, x.end))
        if word in _MODAL and not (word == "may" and x.capital and i and before in ("in", "of", "since")):
            out.append(Fact("modality", _MODAL[word], x.start, x.end))
        if word in SURE:
            out.append(Fact("attribution", "sure", x.start, x.end))
        if word in DOUBTED:
            out.append(Fact("attribution", "doubted", x.start, x.end))
        degree = _superlative(found, i, language)
        if degree:
            out.append(Fact("degree", degree, x.start, x.end))
    return out


def opposite(norm: str) -> str:
    """The other side of a direction's norm.

    >>> opposite("3+")
    '3-'
    """
    return norm[:-1] + ("-" if norm[-1] == "+" else "+")


def _than(found: Sequence[Lexeme], i: int) -> bool:
    """ "more than 250" is a number's bound."""
    return (
        i + 2 < len(found)
        and found[i + 1].lower in ("than", "als", "de", "que")
        and (found[i + 2].shape == "number" or found[i + 2].text in "$€£")
    )


def _superlative(found: Sequence[Lexeme], i: int, language: str) -> str:
    word = found[i].lower
    if language not in ("en", ""):
        return ""
    if word.endswith("est") and len(word) > 5 and word not in NO_SUPERLATIVE and not found[i].capital:
        return word
    if word in ("best", "worst", "only") and i and found[i - 1].lower in ("the", "its", "their"):
        return word
    return ""
