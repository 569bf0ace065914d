"""A simulated model and user over real dialogues, to train a policy without a language model.

The text is real: questions, knowledge snippets and responses of recorded dialogues. What the model *does* with
it are rules of ours, drawn with a seed, the same for every policy:

* on a turn that needs no knowledge, the draft is the recorded response. Evidence distracts: with the probability
  `DISTRACTION` the draft repeats the first snippet;
* on a turn that needs knowledge, a draft without evidence is the response of another dialogue (fluent and wrong);
* with a gold snippet in the evidence, a draft uses the best gold snippet with the probability `SKILL`,
  after feedback `SKILL_AFTER_FEEDBACK`; else it repeats the first snippet that is not gold;
* with evidence but no gold snippet it repeats the first snippet.

The reward is unigram F1 of the sent answer against the reference (the gold snippets, or the recorded response),
0 for no answer, less `SEARCH_COST` for each search and `DRAFT_COST` for each draft.
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
    """One user turn of a dialogue.

    Attributes:
        question: What the user says.
        history: The turns before it.
        snippets: The knowledge that can be searched.
        gold: Ids of the snippets that the answer needs; none if it needs no knowledge.
        response: The recorded response.
    """

    question: str
    history: tuple[Message, ...]
    snippets: tuple[Passage, ...]
    gold: frozenset[str]
    response: str

    @property
    def needs_knowledge(self) -> bool:
        """Whether the answer needs a snippet."""
        return bool(self.gold)

    @property
    def reference_text(self) -> str:
        """What an answer is compared with: the gold snippets, or the recorded response."""
        if not self.needs_knowledge:
            return self.response
        gold_texts = [
            snippet.text for snippet in self.snippets if snippet.id in self.gold
        ]
        return " ".join(gold_texts)


# The simulator's numbers, all ours. Probabilities that a draft uses a gold snippet, without
# and after feedback, and that evidence distracts.
SKILL, SKILL_AFTER_FEEDBACK = 0.7, 0.9
DISTRACTION = 0.5
# Costs in units of F1, and snippets per search.
SEARCH_COST, DRAFT_COST = 0.02, 0.03
NARROW_COUNT, WIDE_COUNT = 5, 15


class Simulator:
    """One turn as an episode: call it with a policy, get the answer and the reward.

    The same seed makes the same draws: the n-th draft of a turn is the same whatever was done
    before it, if it is written from the same evidence.

    Args:
        turn: The turn.
        other_responses: Responses of other dialogues, which the model uses without evidence.
        seed: The seed.
    """

    def __init__(
        self,
        turn: Turn,
        other_responses: Sequence[str],
        *,
        seed: int,
    ) -> None:
        self.turn = turn
        self.other_responses = tuple(other_responses)
        self.seed = seed
        self._narrow = BM25Retriever(turn.snippets, k=NARROW_COUNT)
        self._wide = BM25Retriever(turn.snippets, k=WIDE_COUNT)

    def augmenter(self, policy: Policy) -> Augmenter:
        """Return a new loop over the simulated model."""
        draft_count = 0

        def write_reply(messages: Sequence[Message]) -> str:
            nonlocal draft_count
            draft_count += 1
            return self._write_draft(draft_count, messages)

        return Augmenter(
            FunctionLLM(write_reply),
            Consolidator(self._narrow, wide=(self._wide,)),
            judge="off",  # a judge would ask the simulated model, which writes nothing but drafts
            policy=policy,
            limits=LoopLimits(attempts=3, patience=3),
        )

    def __call__(self, policy: Policy) -> tuple[Answer, float]:
        answer = self.augmenter(policy).answer(self.turn.question, self.turn.history)
        return answer, self.reward(answer)

    def reward(self, answer: Answer) -> float:
        """Knowledge F1 of the answer, from 0 to 1, less what it cost."""
        quality = 0.0
        if answer.memory.attempts:
            quality = knowledge_f1(answer.text, [self.turn.reference_text])
        return quality - self.cost(answer)

    def cost(self, answer: Answer) -> float:
        """The cost of the searches and drafts."""
        tags = [event.tag for event in answer.trace.events]
        search_cost = tags.count("search") * SEARCH_COST
        return search_cost + tags.count("draft") * DRAFT_COST

    def _write_draft(self, draft_number: int, messages: Sequence[Message]) -> str:
        prompt_text = messages[1].content
        shown_snippets = [p for p in self.turn.snippets if p.text in prompt_text]
        gold_snippets = [p for p in shown_snippets if p.id in self.turn.gold]
        seed = (
            f"{self.seed} {draft_number} {bool(gold_snippets)} {bool(shown_snippets)}"
        )
        rng = random.Random(seed)
        if not self.turn.needs_knowledge:
            if shown_snippets and rng.random() < DISTRACTION:
                return shown_snippets[0].text
            return self.turn.response
        if not shown_snippets:
            if self.other_responses:
                return rng.choice(self.other_responses)
            return "I cannot say."
        has_feedback = len(messages) > 2
        return self._use_evidence(shown_snippets, gold_snippets, has_feedback, rng)

    def _use_evidence(
        self,
        shown_snippets: Sequence[Passage],
        gold_snippets: Sequence[Passage],
        has_feedback: bool,
        rng: random.Random,
    ) -> str:
        """The best gold snippet, or the first other one, by the model's skill."""
        other_snippets = [
            snippet for snippet in shown_snippets if snippet not in gold_snippets
        ]
        skill = SKILL
        if has_feedback:
            skill = SKILL_AFTER_FEEDBACK
        uses_gold = bool(gold_snippets) and (not other_snippets or rng.random() < skill)
        if not uses_gold:
            return other_snippets[0].text
        reference_text = self.turn.reference_text
        best = max(gold_snippets, key=lambda p: knowledge_f1(p.text, [reference_text]))
        return best.text


def simulators(turns: Iterable[Turn], *, seed: int) -> list[Simulator]:
    """Return one simulator per turn; other responses are drawn from the other turns."""
    all_turns = list(turns)
    rng = random.Random(seed)
    episodes = []
    for number, turn in enumerate(all_turns):
        other_responses = []
        for other in rng.sample(all_turns, min(8, len(all_turns))):
            if other.response != turn.response:
                other_responses.append(other.response)
        turn_seed = seed * 1_000_003 + number
        episodes.append(Simulator(turn, other_responses, seed=turn_seed))
    return episodes
