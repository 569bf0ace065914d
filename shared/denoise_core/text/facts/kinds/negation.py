"""Negations and what they deny."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.text.facts.fact import Fact
from denoise_core.text.lexemes import Lexeme
from denoise_core.text.wordlists import EXCEPTIONS, FUNCTION_WORDS, NEGATIONS, listed

_CUES = NEGATIONS | listed(
    """
    nein isn't don't keinesfalls keineswegs ohne weder sin tampoco nadie nada aucunement rien non personne
    kaum neither nor can't nicht none failed fails unable refused lacks lacked 并非 并未
    """
)
_NOT_DENYING = frozenset(("only", "just", "nur", "solo", "sólo", "solamente", "seulement", "least", "merely"))
_UNTIL = frozenset(("until", "till", "before", "bevor", "hasta"))  # "not ratified until May" is ratified in May
_ENDS = frozenset(".!?;:。！？；—")
_TURNS = listed(
    """
    but aber sondern sino pero mais however although while unless except sauf
    """
)
REACH = 6  # content words


def negations(found: Sequence[Lexeme], language: str) -> list[Fact]:
    """Each with the range that it denies: to the right until a mark, a "but" or `REACH` content words; what a
    pair of commas puts between is passed over ("must not, under any circumstances, take")."""
    out: list[Fact] = []
    for i, x in enumerate(found):
        if not _cue(found, i, language) or _UNTIL & {y.lower for y in found[i + 1 : i + 5]}:
            continue
        first = _behind_aside(found, i + 1)
        end = _reach(found, first)
        start = found[first - 1].end
        if language in ("de", "nl") or x.lower in ("pas", "nicht"):
            start = _back(found, i)
        out.append(Fact("negation", "not", x.start, x.end, scope=(start, max(x.end, end))))
    return out


def is_negation(lower: str) -> bool:
    return lower in _CUES or lower.endswith("n't")


def _cue(found: Sequence[Lexeme], i: int, language: str) -> bool:
    x = found[i]
    lower = x.lower
    if x.shape == "number" or x.shape == "mark":
        return False
    after = found[i + 1].lower if i + 1 < len(found) else ""
    if after in _NOT_DENYING and lower in ("not", "nicht", "no", "non"):
        return False
    if lower.endswith("n't") or lower == "n't":
        return True
    if lower not in _CUES or lower in EXCEPTIONS:
        return False
    if lower in ("no", "nein", "non", "sin", "ni", "sans", "pas", "ne", "não", "nada") and after in (
        ",",
        ":",
        ".",
        "!",
    ):
        return False  # an answer, not a denial of what follows
    if lower == "no" and after in (".", "longer") and language == "en":
        return after == "longer"
    if lower in ("ne", "nem", "sem", "mai", "min", "non") and language in ("en", "de"):
        return False
    if lower == "mai" and language != "it":
        return False
    if lower == "ne" and language == "fr":
        return False  # "pas" says it
    if lower == "无" or lower == "未" or lower == "非":
        return True
    if lower in ("kaum", "hardly", "barely", "scarcely"):
        return True
    return lower not in ("less", "more")


def _behind_aside(found: Sequence[Lexeme], i: int) -> int:
    """Where what is denied begins: behind the second of a pair of commas, when one follows at once."""
    if i >= len(found) or found[i].text != ",":
        return i
    close = next((n for n in range(i + 1, min(i + 9, len(found))) if found[n].text == ","), 0)
    return close + 1 if close else i


def _reach(found: Sequence[Lexeme], i: int) -> int:
    words, end, j = 0, found[i - 1].end, i
    while j < len(found) and words < REACH:
        x = found[j]
        if (
            x.text == ","
            or x.text in _ENDS
            or x.lower in _TURNS
            or (j > i and found[j].line and found[j - 1].text in _ENDS)
        ):
            break
        if x.shape != "mark" and x.lower not in FUNCTION_WORDS:
            words += 1
        end = x.end
        j += 1
    return end


def _back(found: Sequence[Lexeme], i: int) -> int:
    """German denies to the left too: "haftet nicht"."""
    j, words = i, 0
    while j and words < 3:
        x = found[j - 1]
        if x.text in _ENDS or x.text == "," or x.lower in _TURNS:
            break
        words += x.shape == "word" and x.lower not in FUNCTION_WORDS
        j -= 1
    return found[j].start
