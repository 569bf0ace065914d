"""What the tasks share: the prompts, a reply, a marker, and which fact is asked for."""

from __future__ import annotations

from dataclasses import replace

from denoise_core.types import Message
from denoise_lab.tasks.wording import Wording
from denoise_lab.worlds.scene import Scene
from denoise_lab.worlds.world import Fact, World

Conversation = tuple[Message, ...]
"""Messages, of which every assistant's is a reply to be learned."""

PROMPTS = Wording()
UNKNOWN = "unknown"
_AGAIN = (2, 6)
_ABSENT = 0.15  # share of questions that the context does not answer


def reply(text: str) -> Message:
    return Message("assistant", text)


def again(world: World) -> range:
    """Further questions about the same text, in training only: a long prompt is read once for several replies."""
    return range(0 if world.test else world.rng.randint(*_AGAIN))


def asked_of(world: World, scene: Scene) -> tuple[int, Fact, bool]:
    """Which fact to ask for, and whether it is there; an absent one is another of the same kind."""
    rng = world.rng
    k = rng.randrange(len(scene.facts))
    if rng.random() >= _ABSENT:
        return k, scene.facts[k], True
    known = {f.key for f in scene.facts}
    kind = {5: "things", 2: "people", 1: "towns"}[len(scene.facts[0].key)]
    while (other := world.facts(2, 0, kind)[0]).key in known:
        pass
    return k, replace(other, relation=scene.facts[k].relation, named=True), False
