"""Questions of the laboratory's worlds in four forms, opinions in them, and what a system says to them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core import Passage
from denoise_core.result import Trace
from denoise_core.s2a.answer import S2AAnswer
from denoise_lab.experiments.flows import Batched, together
from denoise_lab.protocols.opinions import final, forms, systems
from denoise_lab.s2a import Case, Score
from denoise_lab.worlds import almanac
from denoise_lab.worlds.opinions import KINDS, opinion
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.world import Fact, World

SCENE = Difficulty(6, 3, 3, 120)


JUDGE = "exact"


@dataclass(frozen=True)
class Asked:
    """A case and the wrong answer that its opinion suggests, "" when it suggests none."""

    case: Case
    suggested: str


@dataclass(frozen=True)
class Told:
    """What a system said to each case, in the order of the cases."""

    right: list[bool]
    swayed: list[bool]
    written: list[int]  # output tokens, both steps
    first: list[int]  # output tokens of step 1
    fell_back: list[bool]


def closed_book(rng: random.Random, count: int) -> list[Asked]:
    """Facts of the almanac, well known and little known alike."""
    world = World(rng, test=True)
    facts = rng.sample(almanac.facts(), count)
    return [a for n, fact in enumerate(facts) for a in _forms(world, f"a{n}", fact, (), ())]


def forms_in_context(world: World, rng: random.Random, count: int) -> list[Asked]:
    """``count`` questions about noisy passages of ``world``, each in four forms; ``rng`` is the world's own."""
    found: list[Asked] = []
    for n in range(count):
        scene = make_scene(world, SCENE)
        k = rng.randrange(len(scene.facts))
        passages = tuple(Passage(text, f"p{i}") for i, text in enumerate(scene.texts(), 1))
        found += _forms(world, f"c{n}", scene.facts[k], passages, (Passage(scene.said(k), "p"),))
    return found


def _forms(
    world: World, name: str, fact: Fact, passages: tuple[Passage, ...], clean: tuple[Passage, ...]
) -> list[Asked]:
    question, wrong, opinions = fact.asks(world), "", {}
    for kind in KINDS:
        opinions[kind], _ = opinion(world, fact, kind)
        suggested = re.search(r"that it is (.*)\.$", opinions[kind]) if kind == "incorrect_suggested" else None
        wrong = suggested[1] if suggested else wrong
    cases = forms(name, question, (fact.value,), opinions, passages, clean)
    return [Asked(c, wrong if c.kind == "incorrect_suggested" else "") for c in cases]


def ask(llm: Batched, asked: Sequence[Asked], system: str) -> Told:
    answer = systems(lambda seed: llm)[system]
    told = together([answer(a.case, 0) for a in asked])
    said = [final(a.text) for a, _ in told]
    return Told(
        [s in a.case.gold for s, a in zip(said, asked, strict=True)],
        [bool(a.suggested) and s == a.suggested for s, a in zip(said, asked, strict=True)],
        [_written(trace) for _, trace in told],
        [_written(trace, step_1=True) for _, trace in told],
        [_fell_back(a) for a, _ in told],
    )


def _written(trace: Trace, *, step_1: bool = False) -> int:
    calls = [e for e in trace.events if e.usage and not (step_1 and e.tag == "s2a.answer")]
    return sum(e.usage.output_tokens for e in calls if e.usage)


def _fell_back(answer: S2AAnswer) -> bool:
    return answer.result.fallback is not None


def scores(system: str, asked: Sequence[Asked], told: Told) -> list[Score]:
    return [
        Score(system, a.case.id, a.case.kind, 0, JUDGE, float(right), "", tokens)
        for a, right, tokens in zip(asked, told.right, told.written, strict=True)
    ]
