"""LLM-Augmenter's table of knowledge and feedback (paper, Tables 1 and 4): closed book, BM25, feedback, gold.

Two measures of the same settings: whether an answer is right, and Knowledge-F1 of a reply in the dialogue task
against the passages that hold the answer, which is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from denoise_core.augmenter import (
    Answer,
    Augmenter,
    Consolidator,
    Feedback,
    LoopLimits,
    Policy,
    Rules,
    Utility,
)
from denoise_core.augmenter.answer import Outcome, StopReason
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.paper_utilities import KnowledgeF1, SelfCriticism
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, Task
from denoise_core.errors import DenoiseError, InputError
from denoise_core.protocols import LLM, Retriever
from denoise_core.question import Question
from denoise_core.runtime.effects import Flow
from denoise_core.support.citation_marks import remove_citations
from denoise_core.types import Passage, unique_ids
from denoise_lab.conversations import DIALOGUE
from denoise_lab.overlap import knowledge_f1
from denoise_lab.protocols.papers import ALL, ANSWERS, NEWS_CHAT
from denoise_lab.protocols.sheet import Sheet, System, SystemReply
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import Judge

NARROW, WIDE = 3, 8  # passages of the first search, and of a wider one after a failure
ONE = LoopLimits(attempts=1)
NEVER = Rules(consult="never")


@dataclass(frozen=True)
class Setting:
    """A loop. ``gold`` searches nothing and finds the right passages, ``redraw`` draws a repeated draft."""

    policy: Policy = field(
        default_factory=lambda: Rules(without_evidence="draft", widen=False)
    )
    utility: Utility = field(default_factory=KnowledgeF1)
    feedback: Feedback | None = None
    limits: LoopLimits = field(default_factory=LoopLimits)
    task: Task = QUESTION_ANSWERING
    gold: bool = False
    redraw: bool = False


SETTINGS: Mapping[str, Setting] = {
    "closed book": Setting(policy=NEVER, limits=ONE),
    "BM25": Setting(limits=ONE),
    "BM25, feedback": Setting(),
    "BM25, self-criticism": Setting(utility=SelfCriticism()),
    "gold": Setting(limits=ONE, gold=True),
    "gold, feedback": Setting(gold=True),
    "gold, self-criticism": Setting(gold=True, utility=SelfCriticism()),
}
DIALOGUES = {
    name: replace(SETTINGS[name], task=DIALOGUE)
    for name in ("closed book", "BM25", "BM25, feedback", "gold", "gold, feedback")
}


class Given:
    """A retriever that finds the right passages."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        return self.passages

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return self.passages


def loop_of(
    llm: LLM,
    setting: Setting,
    gold: Sequence[Passage],
    narrow: Retriever,
    wide: Retriever | None = None,
) -> Augmenter:
    """The loop of a setting over one question's knowledge."""
    sources: Any = Given(gold) if setting.gold else narrow
    return Augmenter(
        llm,
        Consolidator(sources, wide=() if setting.gold or wide is None else (wide,)),
        judge=setting.utility,
        policy=setting.policy,
        feedback=setting.feedback,
        limits=setting.limits,
        task=setting.task,
    )


class CutShort(DenoiseError, RuntimeError):
    """A loop ended without a draft, because a model or a search failed, or in the middle, by the budget."""


def cases_of(questions: Sequence[Question]) -> list[Case]:
    """Questions with gold passages and answers; all their passages are what is searched. Others are left out.

    Raises `InputError` when none is left.
    """
    found = [
        Case(
            q.id or f"q{n}",
            ALL,
            q.text,
            q.answers,
            q.text,
            q.passages,
            tuple(p for p in q.passages if p.id in q.gold),
        )
        for n, q in enumerate(questions, 1)
        if q.gold and q.answers
    ]
    if not found:
        raise InputError(
            "this protocol needs questions with 'passages', 'answers' and gold passages"
        )
    return found


def corpus_of(cases: Iterable[Case]) -> tuple[Passage, ...]:
    """Every passage of every case once, under new ids."""
    texts = list(dict.fromkeys((p.text, p.header) for c in cases for p in c.passages))
    ids = unique_ids([None] * len(texts))
    return tuple(Passage(t, i, header=h) for (t, h), i in zip(texts, ids, strict=True))


def systems(
    llm: LLM, settings: Mapping[str, Setting], corpus: Sequence[Passage]
) -> dict[str, System]:
    """Each setting over one corpus, as `Sheet` asks them."""
    narrow, wide = (BM25Retriever(corpus, k=k) for k in (NARROW, WIDE))

    def ask(setting: Setting, case: Case) -> Flow[SystemReply]:
        answer = yield from loop_of(
            llm, setting, case.clean_passages, narrow, wide
        ).flow(case.question)
        return _read_answer(answer)

    return {name: partial(ask, setting) for name, setting in settings.items()}


def _read_answer(answer: Answer) -> SystemReply:
    stopped = answer.stop_reason
    if answer.outcome is Outcome.FAILED or stopped in (
        StopReason.BUDGET,
        StopReason.DEADLINE,
    ):
        raise CutShort(f"the loop was cut short: {stopped.value}")
    return SystemReply(remove_citations(answer.text))


class KnowledgeMeasure:
    """Knowledge-F1 against the passages that hold the answer, 0 to 1."""

    name = "KF1"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        return knowledge_f1(answer, [p.text for p in case.clean_passages])


def sheets(
    llm: LLM,
    cases: Sequence[Case],
    corpus: Sequence[Passage],
    judge: Judge,
    notes: tuple[str, ...] = (),
) -> list[Sheet]:
    """Right answers in the task of answering questions, and Knowledge-F1 in that of dialogue."""
    make: Callable[[Mapping[str, Setting]], dict[str, System]] = partial(
        systems, llm, corpus=corpus
    )
    asked = [replace(c, passages=()) for c in cases]
    return [
        Sheet(
            "knowledge",
            "Knowledge and feedback: right answers",
            "right, %",
            asked,
            make(SETTINGS),
            judge,
            ANSWERS,
            notes,
        ),
        Sheet(
            "dialogue",
            "Knowledge and feedback: Knowledge-F1 of replies",
            "KF1, %",
            asked,
            make(DIALOGUES),
            KnowledgeMeasure(),
            NEWS_CHAT,
            notes,
        ),
    ]
