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
    """The text declines to answer by that mark or word.

    >>> [abstains(text) for text in ("I don't know.", "unknown", "He is unknown.")]
    [True, True, False]
    """
    return declined(text) is not None
