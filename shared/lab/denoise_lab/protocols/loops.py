"""LLM-Augmenter's table of knowledge and feedback (paper, Tables 1 and 4): closed book, BM25, feedback, gold.

Two measures of the same settings: whether an answer is right, and Knowledge-F1 of a reply in the dialogue task
against the passages that hold the answer, which is the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from denoise_core.augmenter import (
    Answer,
    Augmenter,
    Consolidator,
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
from denoise_core.protocols import LLM
from denoise_core.question import Question
from denoise_core.runtime.effects import Flow
from denoise_core.support.citation_marks import remove_citations
from denoise_core.testing import ListRetriever
from denoise_core.types import Passage, unique_ids
from denoise_lab.conversations import DIALOGUE
from denoise_lab.overlap import knowledge_f1
from denoise_lab.protocols.measure import AnswerSystem, SystemReply, TableSpec
from denoise_lab.protocols.papers import ALL, ANSWER_FIGURES, NEWS_CHAT_FIGURES
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import Judge

# Passages of the first search, and of a wider one after a failure.
NARROW_COUNT, WIDE_COUNT = 3, 8
ONE_ATTEMPT = LoopLimits(attempts=1)


@dataclass(frozen=True)
class LoopSetting:
    """One row of the table.

    Attributes:
        policy: Chooses the loop's actions. The paper's loop drafts without evidence if a
            search finds none.
        utility: Judges drafts.
        limits: Attempts of the loop.
        task: The task of the prompts.
        has_gold: The loop searches nothing and gets the passages that hold the answer.
    """

    policy: Policy = field(
        default_factory=lambda: Rules(without_evidence="draft", widen=False)
    )
    utility: Utility = field(default_factory=KnowledgeF1)
    limits: LoopLimits = field(default_factory=LoopLimits)
    task: Task = QUESTION_ANSWERING
    has_gold: bool = False


ANSWER_SETTINGS: Mapping[str, LoopSetting] = {
    "closed book": LoopSetting(policy=Rules(consult="never"), limits=ONE_ATTEMPT),
    "BM25": LoopSetting(limits=ONE_ATTEMPT),
    "BM25, feedback": LoopSetting(),
    "BM25, self-criticism": LoopSetting(utility=SelfCriticism()),
    "gold": LoopSetting(limits=ONE_ATTEMPT, has_gold=True),
    "gold, feedback": LoopSetting(has_gold=True),
    "gold, self-criticism": LoopSetting(has_gold=True, utility=SelfCriticism()),
}
DIALOGUE_SETTINGS = {
    name: replace(ANSWER_SETTINGS[name], task=DIALOGUE)
    for name in ("closed book", "BM25", "BM25, feedback", "gold", "gold, feedback")
}


class LoopCutShort(DenoiseError, RuntimeError):
    """A loop ended without a draft because a model or a search failed, or early because of the budget."""


def knowledge_cases(questions: Sequence[Question]) -> list[Case]:
    """Return the questions with gold passages and answers as cases; all their passages are searched.

    Raises:
        InputError: No question has both.
    """
    cases = []
    for number, question in enumerate(questions, 1):
        if question.gold and question.answers:
            gold_passages = tuple(p for p in question.passages if p.id in question.gold)
            case = Case(
                question.id or f"q{number}",
                ALL,
                question.text,
                question.answers,
                question.text,
                question.passages,
                gold_passages,
            )
            cases.append(case)
    if not cases:
        raise InputError(
            "this protocol needs questions with 'passages', 'answers' and gold passages"
        )
    return cases


def collect_corpus(cases: Iterable[Case]) -> tuple[Passage, ...]:
    """Return every passage of every case once, under new ids."""
    texts: dict[tuple[str, str], None] = {}
    for case in cases:
        for passage in case.passages:
            texts[passage.text, passage.header] = None
    passage_ids = unique_ids([None] * len(texts))
    corpus = []
    for (text, header), passage_id in zip(texts, passage_ids, strict=True):
        corpus.append(Passage(text, passage_id, header=header))
    return tuple(corpus)


def loop_systems(
    llm: LLM, settings: Mapping[str, LoopSetting], corpus: Sequence[Passage]
) -> dict[str, AnswerSystem]:
    """Return each setting as a system that searches one corpus."""
    narrow = BM25Retriever(corpus, k=NARROW_COUNT)
    wide = BM25Retriever(corpus, k=WIDE_COUNT)

    def answer_case(setting: LoopSetting, case: Case) -> Flow[SystemReply]:
        consolidator = Consolidator(narrow, wide=(wide,))
        if setting.has_gold:
            consolidator = Consolidator(ListRetriever(case.clean_passages))
        loop = Augmenter(
            llm,
            consolidator,
            judge=setting.utility,
            policy=setting.policy,
            limits=setting.limits,
            task=setting.task,
        )
        answer = yield from loop.flow(case.question)
        return _reply_of(answer)

    return {name: partial(answer_case, setting) for name, setting in settings.items()}


def _reply_of(answer: Answer) -> SystemReply:
    stop_reason = answer.stop_reason
    is_early = stop_reason in (StopReason.BUDGET, StopReason.DEADLINE)
    if is_early or answer.outcome is Outcome.FAILED:
        raise LoopCutShort(f"the loop was cut short: {stop_reason.value}")
    return SystemReply(remove_citations(answer.text))


class KnowledgeF1Judge:
    """Knowledge-F1 against the passages that hold the answer, from 0 to 1."""

    name = "KF1"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        return knowledge_f1(answer, [p.text for p in case.clean_passages])


def loop_tables(
    llm: LLM,
    cases: Sequence[Case],
    corpus: Sequence[Passage],
    judge: Judge,
    notes: tuple[str, ...] = (),
) -> list[TableSpec]:
    """Right answers in the task of answering questions, and Knowledge-F1 in that of dialogue."""
    cases = [replace(case, passages=()) for case in cases]
    answer_table = TableSpec(
        "knowledge",
        "Knowledge and feedback: right answers",
        "right, %",
        cases,
        loop_systems(llm, ANSWER_SETTINGS, corpus),
        judge,
        ANSWER_FIGURES,
        notes,
    )
    dialogue_table = TableSpec(
        "dialogue",
        "Knowledge and feedback: Knowledge-F1 of replies",
        "KF1, %",
        cases,
        loop_systems(llm, DIALOGUE_SETTINGS, corpus),
        KnowledgeF1Judge(),
        NEWS_CHAT_FIGURES,
        notes,
    )
    return [answer_table, dialogue_table]
