"""What is judged at all: a greeting, thanks, a question back or a tool call makes no statement to check.

And what no judge need be asked about, nor can pass: an empty text, an abstention, the question said back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from denoise_core.augmenter.engine import without_citations
from denoise_core.augmenter.memory import Reason, Verdict
from denoise_core.augmenter.prompts import Task
from denoise_core.support.abstention import abstains
from denoise_core.text.chunk import sentences
from denoise_core.text.words import words
from denoise_core.types import Passage

When: TypeAlias = Callable[[str, str], bool]
"""``when(question, answer)``: whether this answer is to be judged."""

_SMALL_TALK = re.compile(
    r"""^\W*(?:
      (?:hi|hello|hey|good\ (?:morning|afternoon|evening|day)|welcome|greetings)(?:\ (?:there|again|everyone))?
    | (?:thanks?|thank\ you)(?:\ (?:so|very)\ much)?(?:\ for\ (?:your\ patience|asking|waiting))?
    | (?:you(?:'|’)?re|you\ are)\ (?:very\ )?welcome | my\ pleasure | no\ problem | (?:good)?bye
    | have\ a\ (?:nice|good|great)\ (?:day|evening|time|weekend)
    | (?:i(?:'|’)?m|i\ am)\ (?:happy|glad|here)\ to\ help
    | (?:how|what)\ can\ i\ (?:help|do\ for)(?:\ you)?(?:\ with)?(?:\ today)?
    | (?:please\ )?let\ me\ know(?:\ if\ you\ (?:have|need)\ .{0,60})?
    )\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_ASKS_ALL = re.compile(r"\?[\s\"'”’)*]*$")


def states_something(question: str, answer: str) -> bool:
    """False for an answer that is nothing but small talk or questions back; everything else is judged.

    A statement among them makes it judged, and so does an empty answer.

    >>> [states_something("Hi", text) for text in ("Hello! How can I help you today?", "It opened in 1889.
    Right?")] [False, True]
    """
    parts = [answer[s.start : s.end].strip() for s in sentences(Passage(answer, "answer"))]
    said = [part for part in parts if words(part)]
    return not said or not all(_SMALL_TALK.match(part) or _asks(part) for part in said)


def says_nothing(question: str, answer: str, task: Task) -> Verdict | None:
    """The verdict on an answer that holds none, whoever the judge is; None for every other."""
    text = without_citations(answer)
    said = words(text)
    if not said:
        return Verdict("fail", 0.0, (Reason("the answer is empty", "empty"),))
    if said == words(task.unknown) or abstains(answer):
        return Verdict("unknown", 0.0, (Reason("the answer says that it does not know", "abstention"),))
    if said == words(question):
        return Verdict("fail", 0.0, (Reason("the answer only says the question again", "question", text.strip()),))
    return None


def _asks(part: str) -> bool:
    """A question of its own; one that states a number first is a statement in a question's clothes."""
    return bool(_ASKS_ALL.search(part)) and not any(c.isdigit() for c in part)
