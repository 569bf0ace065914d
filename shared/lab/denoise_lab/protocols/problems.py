"""S2A's table of word problems (paper, sections 3.1.3 and 3.2), each with an irrelevant sentence.

The problems that ship are generated here, the same ones every time, in the manner of GSM-IC: sums of one and of
two steps, each without the sentence (``none``), with one off the topic (``random``) and with one about the same
goods (``topic``).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from denoise_core.protocols import LLM
from denoise_core.s2a import Options, Prompts
from denoise_core.types import Passage
from denoise_lab.protocols.measure import TableSpec
from denoise_lab.protocols.opinions import adapt_s2a_system
from denoise_lab.protocols.papers import PROBLEM_FIGURES
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import NumberJudge
from denoise_lab.s2a.systems import S2ASystem, baseline_system, paper_systems

KINDS = ("none", "random", "topic")
SYSTEMS = ("plain", "oracle", "s2a relevance", "s2a select")
STEPWISE_SUFFIX = ", in steps"

_NAMES = "Amir Beatriz Chen Dora Elif Femi Greta Hugo Ines Jonas Kofi Lena".split()  # noqa: SIM905  as in END's set
_GOODS = "apples books candles coins eggs lemons marbles pencils stamps tickets".split()  # noqa: SIM905
_FIRST_SENTENCES = (
    "{owner} has {number} {goods}.",
    "{owner} starts the week with {number} {goods}.",
    "There are {number} {goods} on the shelf of {owner}.",
)
_GAINS = (
    "A neighbour brings {owner} {number} more.",
    "{owner} buys {number} more.",
    "Then {owner} finds {number} more.",
)
_LOSSES = (
    "{owner} gives {number} of them away.",
    "{owner} sells {number} of them.",
    "{number} of them are lost.",
)
_OFF_TOPIC = (
    "The train to the coast takes {number} minutes.",
    "{other} is {number} years old.",
    "The bridge behind the school is {number} metres long.",
    "{other} lives at number {number} of the same street.",
)
_ON_TOPIC = (
    "{other} has {number} {goods}.",
    "Last month {other} bought {number} {goods}.",
    "The shop around the corner sells {number} {goods} a day.",
)


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A problem, and for each kind the sentence to insert (empty for none) at ``position``."""

    sentences: Sequence[str]
    question: str
    answer: int
    distractors: dict[str, str]
    position: int

    def text_with(self, distractor: str) -> str:
        """The sentences as one text, with a distractor if there is one."""
        sentences = list(self.sentences)
        if distractor:
            sentences.insert(self.position, distractor)
        return " ".join(sentences)


def make_problem_cases(count: int, *, seed: int = 0) -> list[Case]:
    """Return ``count`` problems of one step and as many of two, each of them in every one of `KINDS`."""
    cases: list[Case] = []
    for step_count in (1, 2):
        for number in range(count):
            rng = random.Random(f"{seed}/{step_count}/{number}")
            problem = _draw_problem(rng, step_count)
            clean_text = problem.text_with("")
            for kind, distractor in problem.distractors.items():
                text = problem.text_with(distractor)
                case = Case(
                    f"{step_count}-{number}.{kind}",
                    kind,
                    problem.question,
                    (str(problem.answer),),
                    problem.question,
                    (Passage(text, "p"),),
                    (Passage(clean_text, "p"),),
                )
                cases.append(case)
    return cases


def _draw_problem(rng: random.Random, step_count: int) -> WordProblem:
    # The order of the draws decides which problems a seed has.
    owner, other = rng.sample(_NAMES, 2)
    goods = rng.choice(_GOODS)
    sentences, goods_left = _draw_sentences(rng, step_count, owner, goods)
    off_topic = rng.choice(_OFF_TOPIC)
    on_topic = rng.choice(_ON_TOPIC)
    position = rng.randrange(1, len(sentences) + 1)
    distractor_number = rng.randrange(11, 99)
    distractors = {}
    for kind, sentence in zip(KINDS, ("", off_topic, on_topic), strict=True):
        distractors[kind] = sentence.format(
            other=other, number=distractor_number, goods=goods
        )
    question = f"How many {goods} are left?"
    return WordProblem(sentences, question, goods_left, distractors, position)


def _draw_sentences(
    rng: random.Random, step_count: int, owner: str, goods: str
) -> tuple[list[str], int]:
    """The sentences of a problem without a distractor, and its answer."""
    goods_left = rng.randrange(20, 60)
    first_sentence = rng.choice(_FIRST_SENTENCES)
    sentences = [first_sentence.format(owner=owner, number=goods_left, goods=goods)]
    for _ in range(step_count):
        number = rng.randrange(2, 10)
        is_gain = rng.random() < 0.5
        if is_gain:
            sentence = rng.choice(_GAINS)
            goods_left += number
        else:
            sentence = rng.choice(_LOSSES)
            goods_left -= number
        sentences.append(sentence.format(owner=owner, number=number))
    return sentences, goods_left


def problem_systems(llm: LLM) -> dict[str, S2ASystem]:
    """The systems by name, answering at once and in steps (zero-shot chain of thought).

    Those in steps have the prompt for steps in every call that answers.
    """
    stepwise_prompt = Prompts().answer_stepwise
    prompts = replace(Prompts(), answer=stepwise_prompt, answer_fairly=stepwise_prompt)
    at_once = paper_systems(llm)
    stepwise = paper_systems(llm, Options(prompts=prompts))
    stepwise["plain"] = at_once["stepwise"]
    stepwise["oracle"] = baseline_system(llm, stepwise_prompt, is_clean=True)
    systems = {name: at_once[name] for name in SYSTEMS}
    for name in SYSTEMS:
        systems[f"{name}{STEPWISE_SUFFIX}"] = stepwise[name]
    return systems


def problem_table(
    llm: LLM, cases: Iterable[Case], notes: tuple[str, ...] = ()
) -> TableSpec:
    """The table of word problems; an answer is right when its last number is the gold."""
    systems = problem_systems(llm)
    return TableSpec(
        "problems",
        "Word problems with a sentence that has no part in them",
        "right, %",
        tuple(cases),
        {name: adapt_s2a_system(system) for name, system in systems.items()},
        NumberJudge(),
        PROBLEM_FIGURES,
        notes,
    )
