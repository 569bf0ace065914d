"""A simulated model and user over real dialogues, to train a policy without a language model.

The text is real: questions, knowledge snippets and responses of recorded dialogues. What the model *does* with
it are rules of ours, drawn with a seed, the same for every policy:

* a turn ``needs`` knowledge or does not. Where it does not, the model's answer is the recorded response;
* without evidence, a turn that needs it gets the response of another dialogue (fluent, and made up);
* with evidence that holds a gold snippet, a draft uses the best gold snippet with ``skill`` (0.7), after
  feedback with ``skill_after_feedback`` (0.9); else it repeats the first snippet that is not gold;
* with evidence but no gold snippet it repeats the first snippet;
* on a turn that needs none, evidence distracts: with ``distraction`` (0.5) the draft repeats the first snippet.

The reward is unigram F1 of the answer sent with what is right (the gold snippets, or the recorded response),
0 for none, less ``search_cost`` for each search and ``draft_cost`` for each draft.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.policy import LoopLimits, Policy
from denoise_core.testing import FunctionLLM
from denoise_core.types import Message, Passage
from denoise_lab.overlap import knowledge_f1


@dataclass(frozen=True, slots=True)
class Turn:
    """One user turn. ``gold`` are ids of ``snippets``; none means that the turn needs no knowledge."""

    question: str
    history: tuple[Message, ...]
    snippets: tuple[Passage, ...]
    gold: frozenset[str]
    response: str

    @property
    def needs(self) -> bool:
        """Whether the turn has passages that its answer needs."""
        return bool(self.gold)

    @property
    def right(self) -> str:
        """What the answer is held against."""
        return (
            " ".join(p.text for p in self.snippets if p.id in self.gold)
            if self.needs
            else self.response
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """The simulator's numbers; all ours."""

    skill: float = 0.7
    skill_after_feedback: float = 0.9
    distraction: float = 0.5
    search_cost: float = 0.02
    draft_cost: float = 0.03
    narrow: int = 5
    wide: int = 15


DEFAULTS = Rules()


class Simulator:
    """One turn as an episode: call it with a policy, get the answer and the reward.

    ``others`` are responses of other dialogues, what the model makes up. The same ``seed`` makes the same
    draws: the n-th draft of a turn is the same whatever was done before it, given what it is written from.
    """

    def __init__(
        self, turn: Turn, others: Sequence[str], *, seed: int, rules: Rules = DEFAULTS
    ) -> None:
        self.turn = turn
        self.others = tuple(others)
        self.seed = seed
        self.rules = rules
        self._narrow = BM25Retriever(turn.snippets, k=rules.narrow)
        self._wide = BM25Retriever(turn.snippets, k=rules.wide)

    def augmenter(self, policy: Policy) -> Augmenter:
        """A fresh loop over the simulated model."""
        drafts = 0

        def reply(messages: Sequence[Message]) -> str:
            nonlocal drafts
            drafts += 1
            return self._draft(drafts, messages)

        return Augmenter(
            FunctionLLM(reply),
            Consolidator(self._narrow, wide=(self._wide,)),
            judge="off",  # the simulated model writes drafts, and would write one of this
            policy=policy,
            limits=LoopLimits(attempts=3, patience=3),
        )

    def __call__(self, policy: Policy) -> tuple[Answer, float]:
        answer = self.augmenter(policy).answer(self.turn.question, self.turn.history)
        return answer, self.reward(answer)

    def reward(self, answer: Answer) -> float:
        """Knowledge F1 of the answer, from 0 to 1, less what it cost."""
        quality = (
            knowledge_f1(answer.text, [self.turn.right])
            if answer.memory.attempts
            else 0.0
        )
        return quality - self.cost(answer)

    def cost(self, answer: Answer) -> float:
        """Searches and drafts."""
        tags = [event.tag for event in answer.trace.events]
        search_cost = tags.count("search") * self.rules.search_cost
        return search_cost + tags.count("draft") * self.rules.draft_cost

    def _draft(self, number: int, messages: Sequence[Message]) -> str:
        shown = [p for p in self.turn.snippets if p.text in messages[1].content]
        gold = [p for p in shown if p.id in self.turn.gold]
        other = [p for p in shown if p.id not in self.turn.gold]
        chance = random.Random(f"{self.seed} {number} {bool(gold)} {bool(shown)}")
        if not self.turn.needs:
            distracted = bool(shown) and chance.random() < self.rules.distraction
            return shown[0].text if distracted else self.turn.response
        if not shown:
            return chance.choice(self.others) if self.others else "I cannot say."
        skill = (
            self.rules.skill_after_feedback if len(messages) > 2 else self.rules.skill
        )
        if gold and (not other or chance.random() < skill):
            return max(gold, key=lambda p: knowledge_f1(p.text, [self.turn.right])).text
        return (other or gold)[0].text


def simulators(
    turns: Iterable[Turn], *, seed: int, rules: Rules = DEFAULTS
) -> list[Simulator]:
    """One for each turn; what the model makes up is drawn from the other turns' responses."""
    listed = list(turns)
    rng = random.Random(seed)
    found = []
    for n, turn in enumerate(listed):
        others = [
            t.response
            for t in rng.sample(listed, min(8, len(listed)))
            if t.response != turn.response
        ]
        found.append(Simulator(turn, others, seed=seed * 1_000_003 + n, rules=rules))
    return found
