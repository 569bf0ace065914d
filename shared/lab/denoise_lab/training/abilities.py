"""What the reader can do: every task on held-out names, combinations and wordings, with intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from denoise_core.evaluate.metrics import wilson
from denoise_core.local.generation.llm import LocalLLM
from denoise_lab.batched import complete_batch
from denoise_lab.tasks import TASKS, Conversation
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

HARD = Difficulty(6, 4, 3, 120)


@dataclass(frozen=True, slots=True)
class Ability:
    """``exact`` replies of ``asked`` are word for word as taught; ``first`` of them begin with the right word."""

    task: str
    asked: int
    exact: int
    first: int

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the exact share (Wilson)."""
        return wilson(self.exact, self.asked)

    def record(self) -> dict[str, str | int]:
        return asdict(self)


def measure(
    llm: LocalLLM,
    *,
    asked: int = 100,
    seed: int = 1,
    difficulty: Difficulty = HARD,
    batch: int = 16,
    only: Sequence[str] = tuple(TASKS),
) -> Iterator[Ability]:
    """Each task in turn: the last replies of ``asked`` conversations that training never drew."""
    for name in only:
        make = TASKS[name][1]
        world = World(random.Random(f"abilities/{seed}/{name}"), test=True)
        conversations = [make(world, difficulty) for _ in range(asked)]
        replies = answered(llm, [c[:-1] for c in conversations], batch)
        pairs = [(reply, c[-1].content) for reply, c in zip(replies, conversations, strict=True)]
        exact = sum(reply.strip() == wanted for reply, wanted in pairs)
        first = sum(reply.split()[:1] == wanted.split()[:1] for reply, wanted in pairs)
        yield Ability(name, asked, exact, first)


def below(measured: Sequence[Ability], shipped: Sequence[Ability], tolerance: float = 0.1) -> list[str]:
    """In words, where a model made anew has fewer exact replies than the shipped one by ``tolerance``."""
    told = {a.task: a.exact / a.asked for a in shipped}
    return [
        f"{a.task}: {a.exact / a.asked:.2f}, shipped {told[a.task]:.2f}"
        for a in measured
        if a.task in told and a.exact / a.asked < told[a.task] - tolerance
    ]


def answered(llm: LocalLLM, conversations: Sequence[Conversation], batch: int = 16) -> list[str]:
    """The replies, in order; conversations of like length share a batch, which saves padding."""
    order = sorted(range(len(conversations)), key=lambda i: sum(len(m.content) for m in conversations[i]))
    said: dict[int, str] = {}
    queue = iter(order)
    while part := list(islice(queue, batch)):
        for i, reply in zip(part, complete_batch(llm, [conversations[i] for i in part]), strict=True):
            said[i] = reply.text
    return [said[i] for i in range(len(conversations))]
