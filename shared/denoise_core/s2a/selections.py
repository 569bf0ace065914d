"""What was selected before, by document and question: a list in another order, or with others, asks nothing again.

What is kept of a document may depend on the others in its call; a known selection is the one made then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

from denoise_core.running.caches import Cache
from denoise_core.s2a.asks import Part, documents
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt
from denoise_core.s2a.replies import Outcome
from denoise_core.types import Message

KNOWN = "known from an earlier call"


def key(cache: Cache, query: str, part: Part, prompt: Prompt, options: Options) -> str:
    """By the model, the wording, the question, and all that a model sees of the document."""
    shown = "\n".join(documents(part, options, count(1)))
    wording = f"{prompt.name} {prompt.version}\n{prompt.system}\n{prompt.user}\n{prompt.held}"
    return cache.key((Message("system", f"selection: {wording}"), Message("user", query), Message("user", shown)))


def look_up(cache: Cache, keys: Sequence[str], parts: Sequence[Part]) -> list[Outcome | None]:
    """The outcome of each part that is known. A store that fails knows nothing."""
    return [_outcome(part, cache.known(name)) for name, part in zip(keys, parts, strict=True)]


def remember(cache: Cache, keys: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Keep what could be read."""
    for name, o in zip(keys, outcomes, strict=True):
        if o.problem is None and o.kept is not None:
            places = {span: n for n, span in enumerate(o.part.spans)}
            cache.keep(name, json.dumps([[places[span], o.order[span]] for span in o.kept]))


def _outcome(part: Part, text: str | None) -> Outcome | None:
    if text is None:
        return None
    try:
        order = {part.spans[n]: int(place) for n, place in json.loads(text)}
    except (ValueError, TypeError, IndexError):
        return None  # another program's entry
    return Outcome(part, kept=tuple(order), notes=(KNOWN,), order=order, calls=0)
