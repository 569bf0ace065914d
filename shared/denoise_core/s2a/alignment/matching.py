"""Is a word of one text among those of another: the same, another form of it, or a slip of the keyboard?"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rapidfuzz.distance import OSA

from denoise_core.s2a.alignment.same_words import IRREGULAR
from denoise_core.text.tokens import Token
from denoise_core.text.tokens import tokens as all_tokens

_SUFFIXES = ("ing", "ed", "es", "s", "ly", "er", "or", "en", "e", "n", "t", "st")


def tokens(text: str) -> list[Token]:
    """The words of ``text`` without "one", which stands for a noun or for anybody more often than for a number."""
    return [t for t in all_tokens(text) if text[t.start : t.end].lower() != "one"]


def plain(norm: str) -> str:
    """Without accents."""
    if norm.isascii():
        return norm
    return "".join(c for c in unicodedata.normalize("NFKD", norm) if not unicodedata.combining(c))


def known(token: Token, among: Sequence[Token]) -> bool:
    """Whether a word is among the others: the same, another form of it, or the same with a slip of the "
    "keyboard."""
    norm = plain(token.norm)
    for other in among:
        theirs = plain(other.norm)
        if norm == theirs or norm.replace("'", "") == theirs.replace("'", ""):
            return True
        if token.kind == "number" or other.kind == "number":
            continue
        if stem_of(norm) == stem_of(theirs) or _inflected(norm, theirs) or _clitic(norm, theirs):
            return True
        proper = token.kind == "name" and other.kind == "name"
        if not proper and _slip(norm, theirs):
            return True
    return False


def stem_of(word: str) -> str:
    """The word without an ending; "cities", "citys" and "city" are one, and so are "wrote" and "written"."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) > 4 and word.endswith(("ies", "ys")):
        return word[: -3 if word.endswith("ies") else -2]
    word = word[:-1] if len(word) > 4 and word.endswith("y") else word
    for suffix in _SUFFIXES:
        if len(word) - len(suffix) >= 4 and word.endswith(suffix):
            return word[: -len(suffix)].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


def _inflected(a: str, b: str) -> bool:
    """recover, recovered: one is the other with an ending, also where the other looks as if it had one itself."""
    long, short = (a, b) if len(a) > len(b) else (b, a)
    return len(short) > 4 and long.startswith(short) and long[len(short) :] in ("ed", "d", "ing", "s", "es")


def _clitic(a: str, b: str) -> bool:
    """Spanish and Italian verbs with a pronoun at their end: desalarlo, desalar."""
    long, short = (a, b) if len(a) > len(b) else (b, a)
    return (
        long.startswith(short)
        and long[len(short) :] in ("lo", "la", "los", "las", "le", "les", "se", "me", "li", "ne", "ci", "vi")
        and len(short) > 4
    )


def _slip(a: str, b: str) -> bool:
    if a[:1] != b[:1] or min(len(a), len(b)) < 3:
        return False
    allowed = 2 if min(len(a), len(b)) >= 9 and a[:2] == b[:2] else 1
    return int(OSA.distance(a, b, score_cutoff=allowed)) <= allowed
