"""The claims of an answer: its sentences and list items without politeness, markup and citations.

Nothing is moved: what does not count is overwritten with blanks, so that places stay those of the answer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.support.citing import Citation
from denoise_core.support.evidence import sentence_places
from denoise_core.text.facts.reading import Reading

_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>\n]{0,60}>|\*+|~~|`+|^[ \t]{0,8}(?:#{1,6}|>)[ \t]{1,9}"
    r"|^[ \t]{0,9}(?:[-+•·–—]|\(?\d{1,2}[.)]|[a-z]\))[ \t]{1,9}"
    r"|(?<!\w)_+|_+(?!\w)|^[ \t]{0,9}\|?(?:[ \t]{0,9}:?-{3,}:?[ \t]{0,9}\|?)+[ \t]{0,9}$"
    r"|^[ \t]{0,9}\||\|[ \t]{0,9}$",
    re.MULTILINE,
)
_OPENING = re.compile(
    r"\s{0,9}(?:(?:yes|no|yep|nope|ja|nein|sí|si|no|oui|non|true|false|是的?|不是?|对|כן|לא|نعم|لا)\s{0,9}[,.:;!，。！—–-]+\s{0,9})+",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"\s{0,9}(?:(?:according to|based on) (?:the |this |these )?(?:provided |given |above )?"
    r"(?:evidence|context|passages?|documents?|sources?|text|information)"
    r"(?: provided| given| above)?|(?:the )?(?:final )?answer(?: is)?|answer|antwort"
    r"|respuesta|réponse)\s{0,9}[:,]?\s{1,9}",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"\W*(?:"
    r"sure|certainly|of course|absolutely|great question|good question"
    r"|i(?:'d| would) be (?:happy|glad)|happy to help|glad to|thank(?:s| you)|you(?:'re| are) welcome"
    r"|let me know|(?:i )?hope (?:this|that) helps?|feel free|please (?:let|feel|note)"
    r"|is there anything|if you (?:have|need)|best regards|kind regards|dear |hello|hi\b"
    r"|here (?:is|are) (?:the|your|a)|(?:by )?following (?:these|the above) \w+"
    r"|vielen dank|danke|gerne?\b|natürlich|selbstverständlich"
    r"|mit freundlichen|freundliche grüße|liebe grüße|ich hoffe|bei (?:weiteren )?fragen|melden sie"
    r"|hallo|guten tag|sehr geehrte|kein problem|claro|por supuesto|con (?:mucho )?gusto|espero que"
    r"|gracias|suerte|un saludo|saludos|hola|no dud[ae]|estimad|si tiene|bien sûr|avec plaisir|merci"
    r"|j'espère|bonjour|cordialement|n'hésite|volontiers|好的|当然|希望|谢谢|您好|请问|不客气|بالطبع|شكرا|בשמחה|תודה"
    r"|בטח"
    r")",
    re.IGNORECASE,
)
_BARE = re.compile(r"\W*\w+\W*")
_COUNTED = re.compile(r"\(?\d{1,2}[.)]")
_POLITE_WORDS = 16
_HEADING = 20  # words of a line that announces what follows, at most


@dataclass(frozen=True, slots=True)
class Part:
    """Characters ``[start, end)`` of the answer that claim something; ``text`` is the answer with blanks in
    place of what does not count, from ``start`` to ``end``. ``citations`` stand in it or right behind it."""

    text: str
    start: int
    end: int
    citations: tuple[Citation, ...] = ()


def parts(answer: str, citations: Sequence[Citation], language: str) -> list[Part]:
    """The claims of an answer in order; none when all of it is politeness, markup, or a bare yes or no."""
    masked = _blank(answer, [(c.start, c.end) for c in citations])
    masked = _MARKUP.sub(lambda m: " " * len(m[0]), masked)
    cuts = [c.end for c in citations if re.search(r"\w", masked[c.end : c.end + 40])]
    out: list[Part] = []
    for first_at, last_at in sentence_places(masked, language):
        edges = [first_at, *(c for c in cuts if first_at < c < last_at), last_at]
        for start, end in itertools.pairwise(edges):
            text = masked[start:end]
            if not re.search(r"\w", text) or _polite(text, language):
                continue
            if not out and len(text.split()) <= 2 and opens_with(text) and _BARE.fullmatch(text.strip()):
                continue
            lead = _skipped(text)
            if not re.search(r"\w", text[lead:]):
                continue
            first = start + lead + len(text[lead:]) - len(text[lead:].lstrip(" \t\n;,:"))
            last = start + len(text.rstrip())
            mine = tuple(c for c in citations if start <= c.start < end or last <= c.start < end)
            out.append(Part(masked[first:last], first, last, mine))
    return _without_headings(out)


def opens_with(answer: str) -> str:
    """The yes or no that an answer opens with, '' for none."""
    match = re.match(r"\W*(\w+)", answer.casefold())
    word = match[1] if match else ""
    if word in ("yes", "yep", "ja", "sí", "oui", "true", "是", "是的", "נעם", "نعم", "כן"):
        return "yes"
    return "no" if word in ("no", "nein", "non", "false", "不", "לא", "لا") else ""


def _skipped(text: str) -> int:
    """Characters of a leading "Yes," and "According to the passages,"."""
    at = 0
    for pattern in (_OPENING, _LEADS, _OPENING):
        match = pattern.match(text, at)
        if match and re.search(r"\w", text[match.end() :]):
            at = match.end()
    return at


def _polite(text: str, language: str) -> bool:
    words = text.split()
    if len(words) > _POLITE_WORDS or not _POLITE.match(text.strip()):
        return False
    said = Reading.of(text.strip(), language)
    return not any(f.kind in ("number", "date", "time") for f in said.facts)


def _without_headings(found: list[Part]) -> list[Part]:
    """Without lines that only announce or count what follows: "The symptoms are:", "2."."""
    kept = []
    for n, part in enumerate(found):
        heading = part.text.rstrip().endswith((":", "：")) and n + 1 < len(found)
        heading = heading and len(part.text.split()) <= _HEADING and not any(c.isdigit() for c in part.text)
        if not heading and not _COUNTED.fullmatch(part.text.strip()):
            kept.append(part)
    return kept or found


def _blank(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    for start, end in ranges:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def uncited(answer: str) -> str:
    """The answer without numbers in brackets."""
    return re.sub(r"\s?\[\d{1,3}(?:\s{0,9}[,;–-]\s{0,9}\d{1,3})*\]", "", answer)
