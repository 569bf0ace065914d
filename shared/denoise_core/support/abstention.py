"""Tell "I do not know" from an answer: an abstention is neither grounded nor made up, it is its own outcome.

Our own drafts are asked for a mark, which is read here. Of other drafts a judge that reads says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply
from denoise_core.support.citing import uncited
from denoise_core.text.replies import json_in
from denoise_core.text.wordlists import listed

_ALONE = frozenset(("no answer", "not known", "i dont know", "dont know", "not sure"))
_ALONE |= listed("unknown none n/a na unanswerable")
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
ABSTAINS = "the answer says that it does not know"  # the reason


@dataclass(frozen=True, slots=True)
class Declined:
    """What a draft says that was asked for the mark: ``nearest`` is what the evidence holds beside the answer."""

    nearest: str = ""


def declined(text: str) -> Declined | None:
    """The mark ``{"answered": false, "nearest": "..."}``, an ``"answer"`` that is null, or one word that says no
    more than "unknown".

    >>> declined('{"answered": false, "nearest": "its height"}'), declined("He is unknown.")
    (Declined(nearest='its height'), None)
    """
    bare = " ".join(uncited(text).replace("’", "'").split())
    if re.sub(r"[^\w\s/]", "", bare).casefold().strip() in _ALONE:
        return Declined()
    try:
        said = json_in(text) if "{" in text else None
    except UnparsableReply:
        return None
    if not isinstance(said, Mapping):
        return None
    if said.get("answered") is False or ("answer" in said and said["answer"] is None):
        nearest = said.get("nearest")
        return Declined(nearest if isinstance(nearest, str) else "")
    return None


def abstains(text: str) -> bool:
    """The text declines to answer: by that mark or word, or by a first sentence in which whoever answers says of
    themselves that they cannot. No judge need be asked, and none can pass it.

    >>> [abstains(text) for text in ("I'm sorry, but I cannot answer that.", "unknown", "He is unknown.")]
    [True, True, False]
    """
    first = {w.strip(",.'’").casefold().split("'")[0].split("’")[0] for w in text.split()[:3]}
    return declined(text) is not None or (bool(first & {"i", "we"}) and gap(text))


def gap(text: str) -> bool:
    """The first sentence of a short text says that something is not known or not told."""
    words = " ".join(uncited(text).replace("’", "'").split())
    first = re.split(r"(?<=[.!?])\s", words, maxsplit=1)[0]
    return len(words.split()) <= _LONGEST and _PHRASES.search(first) is not None
