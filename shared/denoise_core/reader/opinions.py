"""What a person adds to a question: a belief about the answer, right often enough that trusting it pays."""

from __future__ import annotations

from denoise_core.reader.world import Fact, World

KINDS = ("correct_suggested", "incorrect_suggested", "correct_denied")
_SHARES = (0.75, 0.15, 0.10)  # in training
_SUGGESTS = (
    "I think it is {v}.",
    "I think it is {v}, but I'm not sure.",
    "My guess is {v}.",
    "I believe that it is {v}.",
)
_DENIES = (
    "I do not think it is {v}.",
    "I don't think it is {v}, but I'm not sure.",
    "I doubt that it is {v}.",
    "It can hardly be {v}.",
)


def opinion(world: World, fact: Fact, kind: str | None = None) -> tuple[str, str]:
    """A sentence and its kind, one of `KINDS`; drawn as in training when ``kind`` is None."""
    rng = world.rng
    kind = kind or rng.choices(KINDS, _SHARES)[0]
    wordings = _DENIES if kind == "correct_denied" else _SUGGESTS
    value = world.other(fact) if kind == "incorrect_suggested" else fact.value
    return world.pick(wordings).format(v=value), kind
