"""END's tables of NoisyRetrieval (paper, Tables 1 and 2): all chunks, LLM-Discrim, a scorer's choice, gold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from denoise_core.embedded.sample import sample_questions
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.question import Question
from denoise_core.runtime.effects import (
    Complete,
    FailedItem,
    Flow,
    batch,
    complete,
    denoise,
)
from denoise_core.scorers import decisions
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.types import Passage
from denoise_lab.noisy_retrieval import LEVELS, PROSE_CHARACTERS, NoisyRetrieval
from denoise_lab.protocols.measure import AnswerSystem, SystemReply, TableSpec
from denoise_lab.protocols.papers import noisy_retrieval_figures
from denoise_lab.s2a.cases import Case

KEPT_SHARE = 0.3  # of the chunks, as the paper keeps

_PASSWORD = re.compile(r"(?<!\d)\d{8}(?!\d)")


def noisy_case(question: Question, level: int) -> Case:
    """Return a question of `NoisyRetrieval` as a case; the oracle reads the gold chunk alone."""
    gold_passages = tuple(p for p in question.passages if p.id in question.gold)
    return Case(
        question.id,
        f"level {level}",
        question.text,
        question.answers,
        question.text,
        question.passages,
        gold_passages,
    )


def shipped_prose() -> str:
    """The passages that ship, as the prose around the sentences with passwords."""
    passage_texts = []
    for question in sample_questions():
        passage_texts += [passage.text for passage in question.passages]
    return "\n".join(passage_texts)


def make_noisy_cases(
    prose_text: str,
    count: int,
    *,
    extended: bool,
    characters: int = PROSE_CHARACTERS,
    seed: int = 0,
) -> list[Case]:
    """Return ``count`` questions of each level. Raises `InputError` if the prose is too short."""
    cases = []
    for level in LEVELS:
        generator = NoisyRetrieval(level, extended, characters=characters)
        for question in generator.make_questions(prose_text, count, seed=seed):
            cases.append(noisy_case(question, level))
    return cases


class PasswordJudge:
    """1 for the password that was asked for and no other, else 0."""

    name = "right"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        passwords = set(_PASSWORD.findall(answer))
        return float(bool(passwords) and passwords <= set(case.gold))


def answer_from(case: Case, passages: Sequence[Passage]) -> Flow[SystemReply]:
    """Answer from these passages: END's second pass."""
    messages = answer_messages(case.question, passages)
    reply = yield from complete(messages, tag="end.answer")
    return SystemReply(reply.text.strip())


def answer_from_all(case: Case) -> Flow[SystemReply]:
    """Answer from every chunk: plain RAG."""
    return (yield from answer_from(case, case.passages))


def answer_from_gold(case: Case) -> Flow[SystemReply]:
    """Answer from the gold chunk alone: the oracle."""
    return (yield from answer_from(case, case.clean_passages))


def answer_after_discrimination(case: Case) -> Flow[SystemReply]:
    """LLM-Discrim: the model accepts or rejects each chunk, then answers from the accepted ones.

    If it accepts none, it answers from the first chunk.
    """
    requests = []
    for passage in case.passages:
        messages = decisions.messages(case.question, passage.text)
        requests.append(Complete(messages, "discriminate"))
    replies = yield from batch(tuple(requests))
    scores = []
    for reply in replies:
        if isinstance(reply, FailedItem):
            raise reply.error
        scores.append(decisions.parse_verdict(reply.text))
    denoiser = ENDDenoiser(FixedScores(scores), threshold=0.5)
    result = denoiser.denoise(case.question, case.passages)
    return (yield from answer_from(case, result.passages))


def answer_after_denoising(denoiser: Denoiser, case: Case) -> Flow[SystemReply]:
    """Answer from what a denoiser keeps."""
    result = yield from denoise(case.question, case.passages, denoiser=denoiser)
    reply = yield from answer_from(case, result.passages)
    return SystemReply(reply.text, result.fallback is not None)


class FixedScores:
    """A scorer that returns scores known before, one per text."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return self.scores


def noisy_systems(scorers: Mapping[str, Scorer]) -> dict[str, AnswerSystem]:
    """The paper's systems; each scorer keeps `KEPT_SHARE` of the chunks."""
    systems: dict[str, AnswerSystem] = {
        "all in": answer_from_all,
        "LLM-Discrim": answer_after_discrimination,
    }
    for name, scorer in scorers.items():
        denoiser = ENDDenoiser(scorer, keep=KEPT_SHARE)
        systems[name] = partial(answer_after_denoising, denoiser)
    systems["oracle"] = answer_from_gold
    return systems


def noisy_table(
    cases: Iterable[Case],
    scorers: Mapping[str, Scorer],
    *,
    extended: bool,
    notes: tuple[str, ...] = (),
) -> TableSpec:
    """One of the two tables; ``scorers`` has "END" if there is a probe on the model's own layers."""
    set_name = "extended" if extended else "standard"
    return TableSpec(
        f"noisy-{set_name}",
        f"NoisyRetrieval, {set_name}",
        "right, %",
        tuple(cases),
        noisy_systems(scorers),
        PasswordJudge(),
        noisy_retrieval_figures(extended),
        notes,
    )
