"""What a person adds to a question: a belief about the answer, right often enough that trusting it pays."""

from __future__ import annotations

from denoise_lab.worlds.world import Fact, World

KINDS = ("correct_suggested", "incorrect_suggested", "correct_denied")
_TAUGHT = {  # shares in training
    "correct_suggested": 0.70,
    "incorrect_suggested": 0.12,
    "incorrect_denied": 0.13,
    "correct_denied": 0.05,
}
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
    """A sentence and its kind; drawn as in training when ``kind`` is None: `KINDS`, and wrong values denied."""
    rng = world.rng
    kind = kind or rng.choices(list(_TAUGHT), list(_TAUGHT.values()))[0]
    wordings = _DENIES if kind.endswith("denied") else _SUGGESTS
    value = world.other(fact) if kind.startswith("incorrect") else fact.value
    return world.pick(wordings).format(v=value), kind
