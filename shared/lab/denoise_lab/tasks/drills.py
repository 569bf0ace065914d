"""What no caller ever asks for, but the tasks are made of: finding, copying, numbering lines, adding up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from denoise_core.types import Message
from denoise_lab.tasks.parts import Conversation, reply
from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.world import World

_SUMS = 6  # in a conversation's question
_REPEATED, _POOL = (4, 30), 12  # words of a text to say again, and the sentences that they are of
_LINES, _LONGEST = 8, 110  # lines of a text at most, and characters of a line of prose


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


def repeat(world: World, hard: Difficulty) -> Conversation:
    """Words without sense, numbers and names in a row, to be said again: half of all tokens are a copy.

    Prose is learned by heart sooner or later, and then nobody has to copy it.
    """
    rng = world.rng
    out: list[Message] = []
    for _ in range(2):
        said = []
        pool = " ".join(rng.choices(prose(), k=_POOL)).split()
        for _ in range(rng.randint(*_REPEATED)):
            kind = rng.random()
            if kind < 0.5:
                said.append(rng.choice(pool))
            elif kind < 0.7:
                said.append(str(rng.randrange(10 ** rng.randint(1, 8))))
            else:
                said.append(world.town() if kind < 0.85 else world.facts(2, 0)[0].value)
        text = " ".join(said)
        out += [Message("user", f"{text}\n\nSay it again."), reply(text)]
    return tuple(out)


def lines(world: World, hard: Difficulty) -> Conversation:
    """Numbered lines of any kind: the line with a number, the number of a line, a line word for word."""
    rng = world.rng
    said: list[str] = []
    count = rng.randint(2, _LINES)
    while len(said) < count:
        if (line := _line(world)) not in said:
            said.append(line)
    text = "\n".join(f"[{n}] {line}" for n, line in enumerate(said, 1))
    out: list[Message] = []
    for n in range(5):
        k = rng.randrange(len(said))
        part = _part(rng, said, k)
        asked, wanted = rng.choice(
            (
                (f"What does line {k + 1} say?", said[k]),
                (f"Which line says: {part}", str(k + 1)),
                (f"Repeat the line with: {part}", said[k]),
            )
        )
        out += [Message("user", asked if n else f"{text}\n\n{asked}"), reply(wanted)]
    return tuple(out)


def _line(world: World) -> str:
    """Prose, a statement, or a name with a number that means nothing."""
    rng = world.rng
    kind = rng.random()
    if kind < 0.5:
        short = [s for s in rng.choices(prose(), k=8) if len(s) <= _LONGEST]
        return short[0] if short else _line(world)
    fact = world.facts(2, 0)[0]
    if kind < 0.8:
        return fact.says(world)
    return f"{fact.subject}: {rng.randrange(10 ** rng.randint(1, 12))}"


def _part(rng: random.Random, said: Sequence[str], k: int) -> str:
    """Two to four words in a row of line ``k`` that stand in no other; the whole line where there are none."""
    of = said[k].split()
    for _ in range(5):
        at = rng.randrange(max(1, len(of) - 2))
        part = " ".join(of[at : at + rng.randint(2, 4)])
        if sum(part in line for line in said) == 1:
            return part
    return said[k]
