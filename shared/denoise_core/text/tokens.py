"""Text as the gate compares it: normalised words with their places and what kind of fact they are."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from denoise_core.text.wordlists import CONTRACTIONS, FUNCTION_WORDS, MONTHS, NEGATIONS, NUMBER_WORDS

Fact = Literal["number", "name", "negation", "word", "function"]

_TOKEN = re.compile(
    r"(?P<number>[$€£¥₹]?\d+(?:[.,:/'’\u00a0\u202f]\d+)*(?:st|nd|rd|th|%|x)?(?![^\W_]))"
    r"|(?P<ideograph>[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    r"|(?P<sign>[%$€£¥₹°±<>=≤≥])"
    r"|(?P<word>[^\s!-/:-@\[-`{-¿‐-‧‹-⁞×÷、。，！？；：（）《》「」『』【】؟،؛।"
    r"\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+(?:['’][^\W\d_]+)*)"
)
_THOUSANDS = re.compile(r"^[$€£¥₹]?\d{1,3}([,'’\u00a0\u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?")
_ORDINAL = re.compile(r"(?<!\d)(\d+)(?:st|nd|rd)$")


@dataclass(frozen=True, slots=True)
class Token:
    """``norm`` is what is compared; the characters are ``[start, end)`` of the text."""

    norm: str
    kind: Fact
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words, numbers and signs of ``text``, without punctuation.

    A capitalised word counts as a name, unless it only opens a sentence and is a function word. Dates are put
    in one order (day, month, year), so that *March 5, 1990* equals *5 March 1990*.
    """
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        raw = match[0]
        if match.lastgroup == "number":
            found += _number(raw, start, end)
        elif match.lastgroup == "word":
            found += _word(raw, start, end, text)
        else:
            kind: Fact = "negation" if raw in NEGATIONS else "number" if match.lastgroup == "sign" else "word"
            found.append(Token(raw, kind, start, end))
    return _dates_in_order(found)


def is_content(token: Token) -> bool:
    return token.kind != "function"


def _number(raw: str, start: int, end: int) -> list[Token]:
    if _THOUSANDS.match(raw):
        raw = re.sub(r"[,'’\u00a0\u202f]", "", raw)
    raw = _ORDINAL.sub(r"\1th", raw)
    out: list[Token] = []
    if raw[0] in "$€£¥₹":
        out.append(Token(raw[0], "number", start, start + 1))
        raw, start = raw[1:], start + 1
    percent = raw.endswith("%")
    raw = raw.rstrip("%")
    raw = "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in raw)
    whole, point, rest = raw.partition(".")
    if point and rest.isdigit():
        rest = rest.rstrip("0")
        raw = f"{whole}.{rest}" if rest else whole
    out.append(Token(raw, "number", start, end - percent))
    if percent:
        out.append(Token("%", "number", end - 1, end))
    return out


def _word(raw: str, start: int, end: int, text: str) -> list[Token]:
    norm = unicodedata.normalize("NFKC", raw).casefold().replace("’", "'")
    if norm in CONTRACTIONS:
        return [_plain(n, start, end) for n in CONTRACTIONS[norm]]
    if norm.endswith("n't"):
        return [_plain(norm[:-3], start, end), Token("not", "negation", start, end)]
    possessive = norm.endswith("'s")
    norm = norm.removesuffix("'s").strip("'")
    if not norm:
        return []
    end = end - 2 if possessive else end
    if norm in NEGATIONS:
        return [Token(norm, "negation", start, end)]
    if norm in MONTHS and raw[:1].isupper():
        return [Token(MONTHS[norm], "number", start, end)]
    if norm in NUMBER_WORDS:
        return [Token(NUMBER_WORDS[norm], "number", start, end)]
    if any(c.isdigit() for c in norm):
        return [Token(norm, "number", start, end)]
    written_large = raw[:1].isupper() and norm != "i" and not _opens_sentence(text, start)
    if norm in FUNCTION_WORDS and not written_large:
        return [Token(norm, "function", start, end)]
    return [Token(norm, "name" if any(c.isupper() for c in raw) else "word", start, end)]


def _opens_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 8) : start].rstrip(" \t\"'“”‘’([*")
    return not before or before[-1] in ".!?:;…\n"


def _plain(norm: str, start: int, end: int) -> Token:
    if norm in NEGATIONS:
        return Token(norm, "negation", start, end)
    return Token(norm, "function" if norm in FUNCTION_WORDS else "word", start, end)


def _dates_in_order(found: list[Token]) -> list[Token]:
    """*March 5* becomes *5 March*: only the order of what is compared changes, not the places."""
    out = list(found)
    for i in range(len(out) - 1):
        month, day = out[i], out[i + 1]
        is_day = day.kind == "number" and day.norm.removesuffix("th").isdigit() and len(day.norm) <= 4
        if month.norm.startswith("month") and is_day and int(day.norm.removesuffix("th")) <= 31:
            if i and out[i - 1].kind == "number" and out[i - 1].norm.removesuffix("th").isdigit():
                continue  # a day stands before it already
            out[i], out[i + 1] = Token(day.norm.removesuffix("th"), "number", day.start, day.end), month
        elif day.norm.startswith("month") and month.kind == "number" and month.norm.endswith("th"):
            out[i] = Token(month.norm.removesuffix("th"), "number", month.start, month.end)
    return out
