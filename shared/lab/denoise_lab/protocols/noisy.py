"""END's tables of NoisyRetrieval (paper, Tables 1 and 2): all in, LLM-Discrim, what a scorer keeps, gold alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

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
from denoise_lab.noisy_retrieval import CHARACTERS, LEVELS, NoisyRetrieval
from denoise_lab.protocols.papers import noisy
from denoise_lab.protocols.sheet import Sheet, System, SystemReply
from denoise_lab.s2a.cases import Case

SHARE = 0.3  # of the chunks, as the paper keeps
NAMES = {False: "standard", True: "extended"}
Said = Literal["right", "another's", "unknown", "other"]

_PASSWORD = re.compile(r"(?<!\d)\d{8}(?!\d)")


def case_of(question: Question, level: int) -> Case:
    """A question of `NoisyRetrieval` as a case; the oracle reads the gold chunk alone."""
    gold = tuple(p for p in question.passages if p.id in question.gold)
    return Case(
        question.id,
        f"level {level}",
        question.text,
        question.answers,
        question.text,
        question.passages,
        gold,
    )


def prose() -> str:
    """The passages that ship, as prose around the sentences."""
    return "\n".join(p.text for q in sample_questions() for p in q.passages)


def made(
    text: str,
    count: int,
    *,
    extended: bool,
    characters: int = CHARACTERS,
    seed: int = 0,
    levels: Sequence[int] = LEVELS,
) -> list[Case]:
    """``count`` questions of each level in ``text``. Raises `InputError` for a text that is too short."""
    return [
        case_of(q, level)
        for level in levels
        for q in NoisyRetrieval(level, extended, characters=characters).questions(
            text, count, seed=seed
        )
    ]


def classify_reply(reply: str, case: Case) -> Said:
    """What a reply is: the password and no other, a distractor's, "unknown", or something else."""
    codes = set(_PASSWORD.findall(reply))
    if codes and codes <= set(case.gold):
        return "right"
    if any(code in p.text for code in codes for p in case.passages):
        return "another's"
    return "unknown" if reply.strip().strip(".").casefold() == "unknown" else "other"


class PasswordJudge:
    """1 for the password that was asked for and no other (`classify_reply`)."""

    name = "right"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        return float(classify_reply(answer, case) == "right")


def answered(case: Case, passages: Sequence[Passage]) -> Flow[SystemReply]:
    """The second pass over ``passages``."""
    reply = yield from complete(
        answer_messages(case.question, passages), tag="end.answer"
    )
    return SystemReply(reply.text.strip())


def all_in(case: Case) -> Flow[SystemReply]:
    """RAG: every chunk."""
    return (yield from answered(case, case.passages))


def oracle(case: Case) -> Flow[SystemReply]:
    """The gold chunk alone."""
    return (yield from answered(case, case.clean_passages))


def ask_for_each_chunk(case: Case) -> Flow[SystemReply]:
    """LLM-Discrim: the model judges each chunk; what it says yes to is kept, the first chunk where that is
    none.
    """
    asked = tuple(
        Complete(decisions.messages(case.question, p.text), "discriminate")
        for p in case.passages
    )
    replies = yield from batch(asked)
    failed = next((r for r in replies if isinstance(r, FailedItem)), None)
    if failed is not None:
        raise failed.error
    known = Known([decisions.parse_verdict(r.text) for r in replies])
    result = ENDDenoiser(known, threshold=0.5).denoise(case.question, case.passages)
    return (yield from answered(case, result.passages))


def kept(denoiser: Denoiser, case: Case) -> Flow[SystemReply]:
    """The second pass over what a denoiser keeps."""
    result = yield from denoise(case.question, case.passages, denoiser=denoiser)
    reply = yield from answered(case, result.passages)
    return SystemReply(reply.text, result.fallback is not None)


class Known:
    """A scorer whose scores are known already."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return self.scores


def systems(scorers: Mapping[str, Scorer]) -> dict[str, System]:
    """The paper's, each scorer keeping `SHARE` of the chunks between LLM-Discrim and the oracle."""
    own = {
        name: partial(kept, ENDDenoiser(s, keep=SHARE)) for name, s in scorers.items()
    }
    return {
        "all in": all_in,
        "LLM-Discrim": ask_for_each_chunk,
        **own,
        "oracle": oracle,
    }


def sheet(
    cases: Iterable[Case],
    scorers: Mapping[str, Scorer],
    *,
    extended: bool,
    notes: tuple[str, ...] = (),
) -> Sheet:
    """One of the two tables; ``scorers`` has "END" where there is a probe on the model's own layers."""
    return Sheet(
        f"noisy-{NAMES[extended]}",
        f"NoisyRetrieval, {NAMES[extended]}",
        "right, %",
        tuple(cases),
        systems(scorers),
        PasswordJudge(),
        noisy(extended),
        notes,
    )
