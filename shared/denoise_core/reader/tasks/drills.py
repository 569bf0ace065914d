"""What no caller ever asks for, but the tasks are made of: finding what finishes a statement, and adding up."""

from __future__ import annotations

from denoise_core.reader.scene import Difficulty, make_scene
from denoise_core.reader.tasks.parts import Conversation, reply
from denoise_core.reader.world import World
from denoise_core.types import Message

_SUMS = 6  # in a conversation's question


def cloze(world: World, hard: Difficulty) -> Conversation:
    """The first lesson: statements begun, to be finished from the context."""
    rng, scene = world.rng, make_scene(world, hard)
    out: list[Message] = []
    # Drawn with replacement: "the one not asked for yet" must not be a way to the answer.
    for n, fact in enumerate(rng.choices(scene.facts, k=5)):
        said = f"{scene.context}\n\n{fact.cloze()}" if n == 0 else fact.cloze()
        out += [Message("user", said), reply(fact.value)]
    return tuple(out)


def sums(world: World, hard: Difficulty) -> Conversation:
    """Sums and differences as they stand in the steps of a word problem."""
    rng = world.rng
    out: list[Message] = []
    for _ in range(2):
        asked = []
        for _ in range(_SUMS):
            a, more = rng.randint(2, 50), rng.random() < 0.5
            b = rng.randint(1, 20 if more else a - 1)
            asked.append((f"{a} {'+' if more else '-'} {b}", a + b if more else a - b))
        said = " ".join(f"{what} = {value}." for what, value in asked)
        out += [Message("user", ", ".join(what for what, _ in asked)), reply(said)]
    return tuple(out)
