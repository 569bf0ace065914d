"""What of a numbers reply is no list: whether it lets the list stand.

A list is taken from a reply only when the rest of the reply can be accounted for: framing, reasons for what was
chosen, and what was left out. What hedges, amends or adds to the list makes the reply unreadable, because nobody
can tell then which numbers are meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from denoise_core.s2a.replies import framing
from denoise_core.s2a.replies import lexicon as lex
from denoise_core.s2a.replies.statements import read

# Ways of writing that are the same list in other clothes: boxes that are ticked, several items on one line, tags.
_TICKED = re.compile(
    r"^[ \t]{0,9}(?:[-*+][ \t]{1,9})?\[(?P<mark>[ xX✓✔])\][ \t]{1,9}(?P<rest>[^\n]{1,200})$", re.MULTILINE
)
_ITEM = re.compile(r"(?<=[\s\"'”.;,)])(?=[\[【(]\d{1,4}[\]】)])")
_ONE_ITEM = re.compile(r"\s{0,9}[\[【(]\d{1,4}[\]】)]")
_ITEM_TAG = re.compile(r"</?(?:piece|item|number|id|n|index)>", re.IGNORECASE)
_COUNTS = re.compile(
    r"^\W{0,9}(?:total|count|confidence|certainty|number of pieces|pieces kept|word count|anzahl"
    r"|gesamt|total de)\b[^\n]{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)
_IN_TOTAL = re.compile(
    r"\s{1,9}[-–—]\s{1,9}\d{1,4} (?:pieces|sentences|items)(?: in total| total)?\s{0,9}\.?\s{0,9}\Z", re.IGNORECASE
)
_ASSIGNED = re.compile(r"^\s{0,9}[\w.]{1,30}\s{0,9}=\s{0,9}(?=\[[\d\s,\"'-]{0,400}\]\s{0,9}$)", re.MULTILINE)
_LEFT_OUT = re.compile(r"\b(?:leav(?:e|es|ing)|left) out\b", re.IGNORECASE)
_NOTHING = re.compile(r"\bn/a\b|لا شيء|لا يوجد", re.IGNORECASE)
_TO_BE = re.compile(r"\bneeds? to be\b", re.IGNORECASE)
_EXCEPTION = re.compile(r"\bwith the exception of\b", re.IGNORECASE)
_NUMBER_SIGN = re.compile(r"\bNos?\.\s{0,2}(?=\d)", re.IGNORECASE)
_REST = re.compile(
    r"[,;.]?\s{1,9}(?:and\s{1,9})?(?P<verb>[a-z]{3,9})\s{1,9}(?:all\s{1,9})?(?:of\s{1,9})?(?:the\s{1,9})?"
    r"(?:rest|others?|other (?:pieces|ones)|remaining(?: pieces| ones)?|everything else)\s{0,9}[.!]?\s{0,9}\Z",
    re.IGNORECASE,
)
_BUT_NOT = re.compile(
    r"[,;]?\s{1,3}\(?(?:but |and )?not\s{1,3}(?:pieces? |sentences? )?\d{1,4}"
    r"(?:\s{0,2}(?:,|and|or|-)\s{0,2}\d{1,4}){0,9}\s{0,3}\)?[.!]?\s{0,9}\Z",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(
    r"(?:[,、،:：]|\b(?:and|or|und|oder|et|ou|и)|[^\s\]]\s{1,3}[yoe]|[-–—(\[])\s{0,9}\Z"
    r"|\d\s{0,3}[,;、]?\s{0,3}(?:\.{3}|…|\b(?:etc|usw)\b\.?|\b(?:and|und) so (?:on|forth|weiter)\b\.?)\s{0,9}\Z",
    re.IGNORECASE,
)
_STRUCK = re.compile(
    r"~~[^~\n]{1,80}~~|(?:^|[\n,;(\[])[ \t]{0,9}-\d|\d\s?,?\s?\(\s?\d{1,6}(?:[.,]\d{1,6})?\s?%?\s?\)"
)
_OPENED = re.compile(r"\A\s{0,9}(?:<(\w{1,20})>|(`{3}))")
_ORDERED = re.compile(
    r"\d\s{0,3}(?:(?:->|=>|→|>|<)\s{0,3}[\dA-Za-z]|,?\s{0,3}(?:\.\.\.?|…),?\s{0,3}\d)|(?:^|[\n,;])\s{0,9}\d{1,4}\s{0,3}:\s{0,3}\["
)

_NONE_SAYS = re.compile(
    r"\A\W{0,6}(?:none of the (?:\w+ )?(?:pieces|sentences|passages|parts|lines)"
    r"|no (?:piece|sentence|passage|part)s?)"
    r" (?:mention|contain|answer|address|discuss|relate|provide|state|give|talk|say|help|deal|concern|refer|speak"
    r"|include)s?\b[^.\d\n]{0,120}\.?\s{0,9}\Z",
    re.IGNORECASE,
)
"""A sentence that says of all pieces at once that they do not bear on the question."""
# Signs that make of numbers a sum, a limit, a score or a choice for and against.
_RECKONED = re.compile(
    r"(?:^|\s)\+\d[^\n]{0,80}\s[-–−]\d|(?<![\w/<])[<>≤≥]\s{0,2}\d{1,6}(?![\d>])|\d\+(?=[\s,.]|\Z)"
    r"|\d\s{0,2}[x×]\s{0,2}\d|\d\s{0,2}[:=]\s{0,2}[01]?\.\d"
    r"|\b(?:from|ab|desde|starting (?:at|with|from))\s{1,3}\d{1,4}\s{0,3}(?:\Z|[.,;\n]|on\b|onwards?\b)",
    re.IGNORECASE | re.MULTILINE,
)

# Words that put a choice in doubt or change it, where a number stands beside them.
_HEDGES = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might|(?-i:may)|could|optional(?:ly)?|also|additionally"
    r"|as well|too|borderline|actually"
    r"|wait|hmm|correction|updated?|revised|instead|partial(?:ly)?|partly|somewhat|arguably|sorry|meant|oops|mistake|rather|if|wenn|falls|unsure|uncertain|unclear|either"
    r"|alternatively|alternative|unless|depend(?:s|ing)|if needed|if necessary|vielleicht|eventuell"
    r"|möglicherweise|auch"
    r"|teilweise|peut-être|éventuellement|aussi|partiellement|quizás?|tal vez|posiblemente|también"
    r"|parcialmente|talvez"
    r"|também|forse|anche|eventualmente|misschien|ook|возможно|также|может быть)\b|\?|或许|也许"
    r"|可能|たぶん|かもしれ|ربما",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"[\[【](\d{1,6})[\]】]|(?<![\w.,:/-])(\d{1,6})(?:\s{0,2}[-–]\s{0,2}(\d{1,6}))?(?![\w%/]|[.,:]\d)"
)
_BRACKETED = re.compile(r"[\[【](\d{1,6})[\]】]")
_SEGMENT = re.compile(r"[\n;；。]|(?<=[.!?])\s")


def prepared(text: str) -> str:
    """The same list in one way of writing: ticked boxes as verdicts, items of one line on lines of their own."""
    text = _TICKED.sub(lambda m: f"{m['rest']}: {'no' if m['mark'] == ' ' else 'yes'}", text)
    text = "\n".join(_parted(line) for line in text.split("\n"))
    text = _IN_TOTAL.sub("", _COUNTS.sub("", _ITEM_TAG.sub(" ", text)))
    text = _NOTHING.sub("none", _LEFT_OUT.sub("drop", _ASSIGNED.sub("", text)))
    text = _TO_BE.sub("should be", text)
    text = _EXCEPTION.sub("except", _NUMBER_SIGN.sub("", text))
    text = _NONE_SAYS.sub("keep: none", text)
    rest = _REST.search(text)
    if rest and (polarity := read(text[: rest.start()]).polarity) in ("keep", "drop"):
        other = lex.DROP if polarity == "keep" else lex.KEEP
        text = text[: rest.start()] if rest["verb"].lower() in other else text
    but = _BUT_NOT.search(text)
    if but and (head := read(text[: but.start()])).is_list and not head.polarity:
        out = {int(n) for n in re.findall(r"\d+", but[0])}
        kept = {n for a, b in head.ranges for n in range(a, min(b, a + 1000) + 1)}
        text = text if out & kept or not kept else text[: but.start()]
    return text.strip()


def never_a_list(text: str) -> bool:
    """A reply that breaks off, strikes out or ranks its numbers."""
    opened = _OPENED.match(text)
    if opened and text.find(f"</{opened[1]}" if opened[1] else "```", opened.end()) < 0:
        return True
    if any(text.rfind(begin) > text.rfind(end) for begin, end in ("[]", "()", "{}")):
        return True
    return any(pattern.search(text) for pattern in (_CUT_OFF, _STRUCK, _ORDERED, _RECKONED))


def in_doubt(text: str, chosen: Collection[int], count: int) -> bool:
    """Whether a part of the reply puts the choice in doubt: it hedges over a piece or brings another one.

    ``text`` is the reply without what stands before its final answer, ``chosen`` the pieces that its list names.
    """
    have = set(chosen)
    for segment in _SEGMENT.split(text):
        if not any(c.isdigit() for c in segment) or framing.offers(segment):
            continue
        told = read(segment)
        named = {n for m in _NAMED.finditer(segment) for n in _numbers(m) if 1 <= n <= count}
        other = named - have
        if named and not told.prose and told.is_list and other and _HEDGES.search(segment):
            return True
        if other and _HEDGES.search(segment) and told.polarity != "drop":
            return True
        label, colon, _ = segment.partition(":")
        if named and colon and (hedge := _HEDGES.search(label)) and hedge[0] != "?":
            return True
        if told.prose and not told.drop and not told.negated and _cited(segment) - have:
            return True
    return False


def _cited(segment: str) -> set[int]:
    """Numbers in brackets; of a piece that is repeated only the one it begins with."""
    numbers = [int(n) for n in _BRACKETED.findall(segment)]
    return set(numbers[:1] if _ONE_ITEM.match(segment) else numbers)


def _numbers(match: re.Match[str]) -> range:
    first = int(match[1] or match[2])
    return range(first, min(int(match[3] or first), first + 1000) + 1)


def _parted(line: str) -> str:
    """A line of several items on lines of their own: "[1] yes [2] no"."""
    if not _ONE_ITEM.match(line) or len(line) > 4000 or read(line).is_list:
        return line
    return "\n".join(part.strip(" ,;") for part in _ITEM.split(line))
