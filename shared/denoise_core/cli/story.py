"""One question the whole way with the shipped reader: found, denoised, answered, verified; by each method.

The questions are of the reader's synthetic world, with names and wordings that its training never drew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from denoise_lab.scene import Difficulty

from denoise_core.augmenter import Augmenter, BM25Retriever
from denoise_core.augmenter.answer import Outcome
from denoise_core.augmenter.engine import without_citations
from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.augmenter.utilities.abstention import abstains
from denoise_core.augmenter.utilities.criticism import SelfCriticism
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.second_pass import SecondPass
from denoise_core.end.second_pass import prompt as answer_prompt
from denoise_core.evaluate.answers import holds_answer
from denoise_core.protocols import LLM, Denoiser
from denoise_core.question import Question
from denoise_core.result import DenoiseResult
from denoise_core.running.flow import run
from denoise_core.s2a.answer import S2A
from denoise_core.types import Passage

SCENES = Difficulty(facts=8, level=3, passages=8, prose=300)
"""How alike the facts are, and how much prose is around them."""
JUDGED = {"pass": "judged supported", "fail": "judged unsupported", "unknown": "the judge could not say"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to an answer. ``kept`` says from what; ``judged`` the verdict, ``trusted`` whether it passed.

    ``result`` shows what was dropped, where something was denoised. ``seconds`` are the wall clock's, verdict
    included.
    """

    name: str
    answer: str
    right: bool
    kept: str
    judged: str
    trusted: bool
    seconds: float = 0.0
    result: DenoiseResult | None = None

    @property
    def mark(self) -> str:
        """``right``, ``wrong``, or ``no answer`` for one that says that it does not know."""
        if self.right:
            return "right"
        return "no answer" if not self.answer or abstains(self.answer) else "wrong"


@dataclass(frozen=True, slots=True)
class Story:
    """A question with what a search ``found`` among the ``searched`` passages, and all ways to an answer."""

    question: Question
    found: tuple[Passage, ...]
    searched: int
    ways: tuple[Way, ...]

    @property
    def gold_found(self) -> bool:
        return self.question.gold <= {p.id for p in self.found}


class Teller:
    """Tells stories with ``llm`` over ``corpus``; ``end`` is END on the same model."""

    def __init__(self, llm: LLM, end: Denoiser, corpus: Sequence[Passage], *, found: int = 10) -> None:
        self.llm = llm
        self.end = end
        self.retriever = BM25Retriever(corpus, k=found)

    def tell(self, question: Question) -> Story:
        found = self.retriever.retrieve(question.text)
        makers: tuple[Callable[[Question, tuple[Passage, ...]], Way], ...] = (
            self._everything,
            self._s2a,
            self._end,
            self._augmented,
        )
        ways = []
        for make in makers:
            started = time.perf_counter()
            way = make(question, found)
            ways.append(replace(way, seconds=time.perf_counter() - started))
        return Story(question, found, len(self.retriever.passages), tuple(ways))

    def _everything(self, question: Question, found: tuple[Passage, ...]) -> Way:
        text = self.llm.complete(answer_prompt(question.text, found)).text
        return self._way("everything found", question, text, found, found)

    def _s2a(self, question: Question, found: tuple[Passage, ...]) -> Way:
        answered = S2A(self.llm, variant="select", max_concurrency=1).answer(question.text, found)
        return self._way("S2A select", question, answered.text, answered.result.passages, found, answered.result)

    def _end(self, question: Question, found: tuple[Passage, ...]) -> Way:
        answered = SecondPass(self.end, self.llm).answer(question.text, found)
        return self._way("END", question, answered.text, answered.result.passages, found, answered.result)

    def _augmented(self, question: Question, found: tuple[Passage, ...]) -> Way:
        """Search, END, draft, self-criticism, feedback, again: the loop does its own verifying."""
        loop = Augmenter(self.llm, self.retriever, denoiser=self.end, utility=SelfCriticism())
        answer = loop.answer(question.text)
        drafts = len(answer.memory.attempts)
        kept = f"{len(answer.memory.evidence)} of {len(found)} passages, {drafts} draft{'s' * (drafts != 1)}"
        right, trusted = _right(answer.text, question), answer.outcome is Outcome.VERIFIED
        return Way("END in the loop", answer.text.strip(), right, kept, answer.outcome.value, trusted)

    def _way(
        self,
        name: str,
        question: Question,
        text: str,
        kept: Sequence[Passage],
        found: Sequence[Passage],
        result: DenoiseResult | None = None,
    ) -> Way:
        memory = WorkingMemory(question.text, tuple(kept))
        verdict: Verdict = run(SelfCriticism(self.llm).assess(memory, text))[0]
        shares = [sum(len(p.text) for p in some) for some in (kept, found)]
        told = f"{len(kept)} of {len(found)} passages, {shares[0] / max(1, shares[1]):.0%} of the text"
        judged = JUDGED[verdict.outcome]
        return Way(name, text.strip(), _right(text, question), told, judged, verdict.passed, result=result)


def _right(text: str, question: Question) -> bool:
    return holds_answer(without_citations(text), question.answers)


def reader_stories(questions: int, *, others: int = 24, seed: int = 0) -> list[Story]:
    """``questions`` told with the shipped reader and its probe, over the passages of ``others`` more as well.

    The same seed gives the same questions; the reader is greedy.
    """
    from denoise_lab import reader
    from denoise_lab.probe_data import scene_questions
    from denoise_lab.probes import reader_probe

    from denoise_core.end.scorer import ProbeScorer

    llm = reader(max_new_tokens=96).with_settings()  # loads it, so that END can share its weights
    end = ENDDenoiser(ProbeScorer(llm.model, reader_probe(), tokenizer=llm.tokenizer), keep=0.3)
    asked = scene_questions(questions + others, seed=seed, test=True, difficulty=SCENES)
    drawn = [named(q) for q in asked]
    teller = Teller(llm, end, [p for q in drawn for p in q.passages])
    return [teller.tell(question) for question in drawn[:questions]]


def named(question: Question) -> Question:
    """The question with ids that differ from those of every other question's passages."""
    passages = tuple(replace(p, id=f"{question.id}/{p.id}") for p in question.passages)
    return replace(question, passages=passages, gold=frozenset(f"{question.id}/{g}" for g in question.gold))
