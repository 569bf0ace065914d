"""A scene: facts that can be confused with each other, stated in passages, with noise around them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.world import Fact, World


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How hard a scene is.

    ``facts`` is the most facts of a scene and ``level`` how alike they are (see `World.things`); ``passages``
    the most passages, ``prose`` the most characters of noise in a passage. ``kinds`` are drawn from evenly.
    """

    facts: int = 2
    level: int = 0
    passages: int = 1
    prose: int = 0
    kinds: tuple[str, ...] = ("things", "people", "towns")


@dataclass(frozen=True, slots=True)
class Scene:
    """``passages`` are tuples of sentences; ``places[k]`` is the passage and the sentence that state fact k."""

    facts: tuple[Fact, ...]
    passages: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, int], ...]

    def texts(self) -> tuple[str, ...]:
        return tuple(" ".join(sentences) for sentences in self.passages)

    @property
    def context(self) -> str:
        return "\n\n".join(self.texts())

    def said(self, k: int) -> str:
        """The sentence that states fact ``k``."""
        passage, at = self.places[k]
        return self.passages[passage][at]


def make_scene(world: World, hard: Difficulty, *, kind: str | None = None, sentences: Sequence[str] = ()) -> Scene:
    """Facts of one kind, stated in random order. ``sentences`` is the prose to hide them in (default: `prose`)."""
    rng = world.rng
    count = rng.randint(2, max(2, hard.facts))
    level = rng.randint(0, hard.level)
    facts = [replace(f, named=True) for f in world.facts(count, level, kind or rng.choice(hard.kinds))]
    groups: list[list[int]] = [[] for _ in range(min(count, rng.randint(1, hard.passages)))]
    order = rng.sample(range(count), count)
    for n, k in enumerate(order):
        groups[n if n < len(groups) else rng.randrange(len(groups))].append(k)
    sentences = sentences or prose()
    passages: list[tuple[str, ...]] = []
    places: dict[int, tuple[int, int]] = {}
    for group in groups:
        said: list[tuple[int | None, str]] = [(None, s) for s in _noise(world, hard.prose, sentences)]
        for k in group:
            said.insert(rng.randint(0, len(said)), (k, facts[k].says(world)))
        places |= {k: (len(passages), at) for at, (k, _) in enumerate(said) if k is not None}
        passages.append(tuple(s for _, s in said))
    return Scene(tuple(facts), tuple(passages), tuple(places[k] for k in range(count)))


def _noise(world: World, most: int, sentences: Sequence[str]) -> list[str]:
    """Up to ``most`` characters: a run of the prose, or facts of other kinds that nobody asks for."""
    rng = world.rng
    length = rng.randint(0, most) if most else 0
    out: list[str] = []
    if rng.random() < 0.5:
        at = rng.randrange(len(sentences))
        while length > 0 and len(sentences[at % len(sentences)]) <= length + 40:
            out.append(sentences[at % len(sentences)])
            length -= len(out[-1])
            at += 1
        return out
    while length > 0:
        fact = world.facts(2, 0, rng.choice(("people", "towns")))[0]
        out.append(fact.says(world))
        length -= len(out[-1])
    return out


def choose(rng: random.Random, scene: Scene) -> int:
    """Which fact to ask for."""
    return rng.randrange(len(scene.facts))
