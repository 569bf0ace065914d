"""Tell "I do not know" from an answer: an abstention is neither grounded nor made up, it is its own outcome."""

from __future__ import annotations

import re

from denoise_core.support.claims import uncited

_ALONE = frozenset(
    (
        "unknown",
        "none",
        "n/a",
        "na",
        "no answer",
        "not known",
        "unanswerable",
        "i dont know",
        "dont know",
        "not sure",
    )
)
_PHRASES = re.compile(
    r"""\b(?:
      (?:i|we)(?:\ am|\ are|'m|'re)?\ ?(?:sorry|afraid)?,?\ ?(?:but\ )?(?:i\ |we\ )?
        (?:do\ not|don't|did\ not|didn't|cannot|can't|could\ not|couldn't|am\ unable\ to|are\ unable\ to)
        \ (?:actually\ )?(?:know|have|find|see|tell|say|answer|provide|determine|confirm)
    | (?:no|not\ enough|insufficient|lack(?:s|ing)?)
        \ (?:specific\ |relevant\ |further\ |such\ |any\ )?(?:information|evidence|details)
    | (?:does\ not|doesn't|do\ not|don't|did\ not|didn't)
        \ (?:say|state|mention|contain|provide|specify|include|answer)
    | (?:is|are|was|were)\ not\ (?:mentioned|stated|specified|given|provided|answered|available\ in)
    | (?:cannot|can't)\ be\ (?:answered|determined|known)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 60  # words; a longer text that also admits a gap is an answer with a caveat


def abstains(candidate: str) -> bool:
    """The candidate declines to answer.

    >>> [abstains(text) for text in ("I'm sorry, I don't have that information.", "unknown", "He is unknown.")]
    [True, True, False]
    """
    text = " ".join(uncited(candidate).replace("’", "'").split())
    if re.sub(r"[^\w\s/]", "", text).casefold().strip() in _ALONE:
        return True
    if len(text.split()) > _LONGEST:
        return False
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    return bool(_PHRASES.search(first))
