"""The reader in the Augmenter's loop: questions of a held-out world, and of what the reader was taught by heart.

The corpus holds passages of confusable facts between facts of other kinds and prose, and passages about the towns
of the almanac. Two thirds of the questions are about the held-out world, which no model can know; the others are
about the almanac, where an answer from memory may be right. An answer is right when, without its citation, it is
the gold word for word.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from denoise_core import Message, Passage
from denoise_core.augmenter import Answer, AnswerVerdict, Augmenter, LoopLimits, WorkingMemory
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.policy import Policy
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.augmenter.utility import Groundedness, Utility, without_effects
from denoise_core.running.effects import Flow
from denoise_core.support.citing import uncited
from denoise_core.types import Reply, unique_ids
from denoise_lab.experiments.flows import Batched, together
from denoise_lab.protocols.loops import NARROW, WIDE, Setting, loop_of
from denoise_lab.worlds import almanac
from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.world import Fact, World

SCENE = Difficulty(6, 3, 2, 120)
SEARCH_COST, CALL_COST = 0.02, 0.03  # of a reward that is 1 for a right answer; as in the simulator


@dataclass(frozen=True)
class Question:
    """``gold`` is the passage that holds the answer, ``said`` its sentence there; ``known`` by heart, maybe."""

    text: str
    answer: str
    said: str
    gold: Passage
    known: bool

    def right(self, text: str) -> bool:
        return uncited(text).strip().removesuffix(".") == self.answer

    def mentioned(self, text: str) -> bool:
        return f" {self.answer} " in f" {uncited(text).strip().removesuffix('.')} "


class Found:
    """BM25 that remembers what it found, so that a policy in training does not wait for it."""

    def __init__(self, passages: Sequence[Passage], k: int) -> None:
        self.bm25 = BM25Retriever(passages, k=k)
        self.known: dict[str, tuple[Passage, ...]] = {}

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        if query not in self.known:
            self.known[query] = self.bm25.retrieve(query)
        return self.known[query]

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return self.retrieve(query)


@dataclass(frozen=True)
class Town:
    """Where the questions live: themselves, and a narrow and a wide search over the passages around them."""

    questions: tuple[Question, ...]
    narrow: Found
    wide: Found


def make_town(rng: random.Random, count: int, part: int) -> Town:
    """``count`` questions; ``part`` (0 or 1) is the half of the almanac whose facts are asked for."""
    world = World(rng, test=True)
    passages: list[Passage] = []
    questions: list[Question] = []
    for n in range(count - count // 3):
        scene = make_scene(world, SCENE)
        own = [Passage(text, f"w{n}.{i}") for i, text in enumerate(scene.texts())]
        k = rng.randrange(len(scene.facts))
        fact, gold = scene.facts[k], own[scene.places[k][0]]
        questions.append(Question(fact.asks(world), fact.value, scene.said(k), gold, known=False))
        passages += own
    facts = almanac.facts()
    asked = {id(f) for f in facts[part::2][: count // 3]}
    by_town: dict[str, list[Fact]] = {}
    for fact in facts:
        by_town.setdefault(fact.subject, []).append(fact)
    for n, of_town in enumerate(by_town.values()):
        said = {id(f): f.says(world) for f in of_town}
        text = " ".join([rng.choice(prose()), *said.values(), rng.choice(prose())])
        gold = Passage(text, f"a{n}")
        passages.append(gold)
        questions += [
            Question(f.asks(world), f.value, said[id(f)], gold, known=True) for f in of_town if id(f) in asked
        ]
    rng.shuffle(passages)
    assert list(unique_ids([p.id for p in passages])) == [p.id for p in passages]
    return Town(tuple(questions), Found(passages, NARROW), Found(passages, WIDE))


class NoFeedback:
    """Says nothing, so that the next draft is written from the same prompt."""

    def write(self, memory: WorkingMemory, candidate: str, verdict: AnswerVerdict) -> Flow[str]:
        return without_effects("")


class AlwaysAgain:
    """Passes nothing, scores by groundedness: every draft gets feedback, the best is sent."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        found = yield from Groundedness().assess(memory, candidate)
        return AnswerVerdict(False, found.score) if found.passed else found


class Redrawing:
    """The greedy model, but a draft asked for in the same words again is drawn by the sampling one."""

    def __init__(self, greedy: Batched, sampling: Batched) -> None:
        self.greedy = greedy
        self.sampling = sampling
        self.asked: set[tuple[Message, ...]] = set()

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self._model(messages).complete(messages)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await self._model(messages).acomplete(messages)

    def _model(self, messages: Sequence[Message]) -> Batched:
        again = tuple(messages) in self.asked
        if messages[0].content.startswith(QUESTION_ANSWERING.instruction):
            self.asked.add(tuple(messages))
        return self.sampling if again else self.greedy


class Reader:
    """The models of a run: greedy, and one that samples."""

    def __init__(self, greedy: Batched, sampling: Batched) -> None:
        self.greedy = greedy
        self.sampling = sampling

    def loop(self, town: Town, question: Question, setting: Setting) -> Augmenter:
        llm = Redrawing(self.greedy, self.sampling) if setting.redraw else self.greedy
        return loop_of(llm, setting, [question.gold], town.narrow, town.wide)

    def answers(self, town: Town, setting: Setting) -> list[Answer]:
        """One answer for each question, all loops side by side."""
        loops = [self.loop(town, q, setting) for q in town.questions]
        flows = [loop.flow(q.text) for loop, q in zip(loops, town.questions, strict=True)]
        llms = [loop.llm for loop in loops]
        return [replace(answer, trace=trace) for answer, trace in together(flows, llms)]

    def episodes(self, town: Town, utility: Utility) -> list[Callable[[Policy], tuple[Answer, float]]]:
        """Each question as something a policy can be trained on."""

        def episode(question: Question) -> Callable[[Policy], tuple[Answer, float]]:
            def play(policy: Policy) -> tuple[Answer, float]:
                setting = Setting(policy=policy, utility=utility, limits=LoopLimits(attempts=3, patience=3))
                answer = self.loop(town, question, setting).answer(question.text)
                return answer, reward(question, answer)

            return play

        return [episode(q) for q in town.questions]


def cost(answer: Answer) -> float:
    """Searches and calls of the model, judging included."""
    tags = [e.tag for e in answer.trace.events]
    searches = tags.count("search")
    return searches * SEARCH_COST + (len(tags) - searches) * CALL_COST


def reward(question: Question, answer: Answer) -> float:
    return float(question.right(answer.text)) - cost(answer)
