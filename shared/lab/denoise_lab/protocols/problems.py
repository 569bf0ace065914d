"""S2A's table of word problems (paper, sections 3.1.3 and 3.2): a sentence with no part in them.

The problems that ship are made here, the same ones every time, in the manner of GSM-IC: sums of one and of two
steps, each without the sentence, with one off the topic (``random``) and with one about the same goods
(``topic``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from denoise_core.protocols import LLM
from denoise_core.s2a import Options, Prompts
from denoise_core.types import Passage
from denoise_lab.protocols.opinions import telling
from denoise_lab.protocols.papers import PROBLEMS
from denoise_lab.protocols.sheet import Sheet
from denoise_lab.s2a.baselines import Baseline
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import NumberJudge
from denoise_lab.s2a.systems import System as S2ASystem
from denoise_lab.s2a.systems import paper_systems

KINDS = ("none", "random", "topic")
AT_ONCE = ("plain", "oracle", "s2a relevance", "s2a select")
STEPS = ", in steps"

_NAMES = (
    "Amir",
    "Beatriz",
    "Chen",
    "Dora",
    "Elif",
    "Femi",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kofi",
    "Lena",
)
_GOODS = (
    "apples",
    "books",
    "candles",
    "coins",
    "eggs",
    "lemons",
    "marbles",
    "pencils",
    "stamps",
    "tickets",
)
_START = (
    "{a} has {n} {g}.",
    "{a} starts the week with {n} {g}.",
    "There are {n} {g} on the shelf of {a}.",
)
_MORE = (
    "A neighbour brings {a} {n} more.",
    "{a} buys {n} more.",
    "Then {a} finds {n} more.",
)
_LESS = (
    "{a} gives {n} of them away.",
    "{a} sells {n} of them.",
    "{n} of them are lost.",
)
_RANDOM = (
    "The train to the coast takes {n} minutes.",
    "{b} is {n} years old.",
    "The bridge behind the school is {n} metres long.",
    "{b} lives at number {n} of the same street.",
)
_TOPIC = (
    "{b} has {n} {g}.",
    "Last month {b} bought {n} {g}.",
    "The shop around the corner sells {n} {g} a day.",
)


def made(count: int, *, seed: int = 0) -> list[Case]:
    """``count`` problems of each number of steps, each of them in every one of `KINDS`."""
    found: list[Case] = []
    for steps in (1, 2):
        for i in range(count):
            rng = random.Random(f"{seed}/{steps}/{i}")
            a, b = rng.sample(_NAMES, 2)
            goods, has = rng.choice(_GOODS), rng.randrange(20, 60)
            said, left = [rng.choice(_START).format(a=a, n=has, g=goods)], has
            for _ in range(steps):
                n, more = rng.randrange(2, 10), rng.random() < 0.5
                said.append(rng.choice(_MORE if more else _LESS).format(a=a, n=n))
                left += n if more else -n
            noise = {
                "none": "",
                "random": rng.choice(_RANDOM),
                "topic": rng.choice(_TOPIC),
            }
            at, other = rng.randrange(1, len(said) + 1), rng.randrange(11, 99)
            for kind, sentence in noise.items():
                extra = [sentence.format(b=b, n=other, g=goods)] if sentence else []
                text, clean = " ".join([*said[:at], *extra, *said[at:]]), " ".join(said)
                found.append(
                    problem(
                        f"{steps}-{i}.{kind}",
                        kind,
                        text,
                        clean,
                        f"How many {goods} are left?",
                        left,
                    )
                )
    return found


def problem(
    name: str, kind: str, text: str, clean: str, question: str, answer: object
) -> Case:
    """The problem's text as a passage, its question as the question; ``clean`` is the text without the
    sentence.
    """
    came, without = ((Passage(t, "p"),) for t in (text, clean))
    return Case(name, kind, question, (str(answer),), question, came, without)


def systems(llm_for: Callable[[int], LLM]) -> dict[str, S2ASystem]:
    """By name, answering at once and in steps; those in steps have the prompt for steps wherever one answers."""
    steps = Prompts().answer_stepwise
    prompts = replace(Prompts(), answer=steps, answer_fairly=steps)
    at_once, stepwise = (
        paper_systems(llm_for, o) for o in (None, Options(prompts=prompts))
    )
    stepwise["plain"] = at_once["stepwise"]
    stepwise["oracle"] = lambda case, seed: Baseline(
        llm_for(seed), kind="stepwise"
    ).flow(case.clean_question, case.clean_passages)
    return at_once | {f"{name}{STEPS}": stepwise[name] for name in AT_ONCE}


def sheet(llm: LLM, cases: Iterable[Case], notes: tuple[str, ...] = ()) -> Sheet:
    """The table of word problems; right when the last number said is the answer."""
    known = systems(lambda seed: llm)
    names = (*AT_ONCE, *(f"{n}{STEPS}" for n in AT_ONCE))
    return Sheet(
        "problems",
        "Word problems with a sentence that has no part in them",
        "right, %",
        tuple(cases),
        {name: telling(known[name]) for name in names},
        NumberJudge(),
        PROBLEMS,
        notes,
    )
