"""Times of day: 3 pm, 15:00, 5.12 Uhr, 八点."""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.lexemes import Lexeme

_CLOCK = re.compile(r"([01]?\d|2[0-4])[:.h]([0-5]\d)$")


def clock(found: Sequence[Lexeme], i: int) -> tuple[str, str, int] | None:
    text, j = found[i].text, i + 1
    match = _CLOCK.match(text)
    after = found[j].lower if j < len(found) else ""
    minutes = "00"
    if (match and ":" in text) or (match and after in ("uhr", "h")):
        hour, minutes = int(match[1]), match[2]
    elif (
        text.isdigit()
        and len(text) <= 2
        and int(text) <= 24
        and (after in ("uhr", "am", "pm", "o'clock", "点") or _halves(found, j))
    ):
        hour = int(text)
    else:
        return None
    if after in ("uhr", "am", "pm", "h", "o'clock", "点"):
        j += 1
    if after == "pm" or _halves(found, j) == "p":
        hour += 12 if hour < 12 else 0
    elif (after == "am" or _halves(found, j) == "a") and hour == 12:
        hour = 0
    if _halves(found, j):
        j += 3 + (j + 3 < len(found) and found[j + 3].text == "." and found[j + 3].start == found[j + 2].end)
    return "time", f"{hour:02d}:{minutes}", j


def _halves(found: Sequence[Lexeme], j: int) -> str:
    """ "a" or "p" where "a.m." or "p.m." begins."""
    three = [x.lower for x in found[j : j + 3]]
    return three[0] if len(three) == 3 and three[0] in ("a", "p") and three[1] == "." and three[2] == "m" else ""
