"""What the reader is to know by heart: the same facts about some towns in every training run.

Without a source it recalls them, not always rightly, as larger models do with what they have read.
"""

from __future__ import annotations

import random
from functools import cache

from denoise_lab.worlds.relations import TOWN
from denoise_lab.worlds.world import Fact, World

TOWNS = 200


@cache
def facts() -> tuple[Fact, ...]:
    world = World(random.Random("almanac"))
    names: list[str] = []
    while len(names) < TOWNS:
        if (name := world.town()) not in names:
            names.append(name)
    return tuple(Fact((n,), n, relation, world.value(relation)) for n in names for relation in TOWN[:2])


def draw(rng: random.Random) -> Fact:
    """One of them; the first ones are asked for more often, and so known better."""
    known = facts()
    return known[int(len(known) * rng.random() ** 2)]
