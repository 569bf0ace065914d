"""Word problems of one or two steps, with a sentence that has no part in them."""

from __future__ import annotations

from dataclasses import dataclass

from denoise_lab.noisy_retrieval import ATTRIBUTES
from denoise_lab.worlds.relations import words
from denoise_lab.worlds.world import World

_GOODS = words(
    """
    apples beads books buttons candles cards coins cups eggs figs keys lemons marbles nails nuts
    pears pens plums shells stamps stones tickets
"""
)
_START = (
    "{a} has {n} {g}.",
    "There are {n} {g} in the box of {a}.",
    "{a} owns {n} {g}.",
    "In the hands of {a} are {n} {g}.",
    "{a} counts {n} {g}.",
    "On Monday {a} had {n} {g}.",
    "{a} begins with {n} {g}.",
)
_MORE = (
    "{a} buys {n} more.",
    "Then {a} finds {n} more.",
    "A friend gives {a} {n} more.",
    "{a} gets {n} more for a birthday.",
    "{n} more come to {a} by post.",
    "Later {a} picks up {n} more.",
    "{a} is handed {n} more.",
)
_LESS = (
    "{a} gives {n} away.",
    "Then {a} loses {n}.",
    "{a} sells {n} of them.",
    "{n} of them are taken from {a}.",
    "{a} breaks {n} of them.",
    "Later {a} leaves {n} behind.",
    "{a} throws {n} out.",
)
_ASK = (
    "How many {g} does {a} have now?",
    "How many {g} has {a} in the end?",
    "How many {g} are left to {a}?",
    "How many {g} does {a} hold at last?",
    "What number of {g} has {a} now?",
    "{a} counts the {g} again: how many are there?",
    "With how many {g} does {a} end?",
)
_TOPIC = (
    "{b} has {n} {g}.",
    "{b} bought {n} {g} last week.",
    "{b} would like to have {n} {g}.",
    "A cousin of {b} collects {g} and has {n}.",
    "In the shop {b} saw {n} {g}.",
    "{b} once counted {n} {g}.",
    "{b} sold {n} {g} in spring.",
)


@dataclass(frozen=True, slots=True)
class Sum:
    """``sentences`` are needed, ``noise`` is not and stands at place ``at``; ``steps`` are the sums in words."""

    sentences: tuple[str, ...]
    question: str
    noise: str
    kind: str
    at: int
    steps: tuple[str, ...]
    answer: int

    @property
    def text(self) -> str:
        said = list(self.sentences)
        if self.noise:
            said.insert(self.at, self.noise)
        return " ".join(said)

    @property
    def clean(self) -> str:
        return " ".join(self.sentences)


def make_sum(world: World, *, steps: int | None = None, noise: str | None = None) -> Sum:
    """A problem of 1 or 2 steps. ``noise`` is ``"none"``, ``"random"`` (off the topic), ``"topic"`` or drawn."""
    rng = world.rng
    a, b = rng.sample(ATTRIBUTES["name"], 2)
    goods = rng.choice(_GOODS)
    total = rng.randint(2, 30)
    sentences, sums = [world.coined(_START).format(a=a, n=total, g=goods)], []
    for _ in range(steps or rng.randint(1, 2)):
        more = total < 5 or rng.random() < 0.5
        n = rng.randint(1, 20) if more else rng.randint(1, total - 1)
        sentences.append(world.coined(_MORE if more else _LESS).format(a=a, n=n))
        sums.append(f"{total} {'+' if more else '-'} {n} = {total + n if more else total - n}.")
        total = total + n if more else total - n
    kind = noise or rng.choice(("none", "random", "topic"))
    said = ""
    if kind == "topic":
        said = world.coined(_TOPIC).format(b=b, n=rng.randint(2, 30), g=goods)
    elif kind == "random":
        said = world.facts(2, 0, rng.choice(("people", "towns")))[0].says(world)
    at = rng.randint(0, len(sentences))
    return Sum(tuple(sentences), world.coined(_ASK).format(a=a, g=goods), said, kind, at, tuple(sums), total)
