"""What S2A is compared with: answering from everything, with and without a word of warning (paper, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from denoise_core.errors import InputError
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a import S2AResult
from denoise_core.s2a.answer import S2AAnswer, answer_from_passages
from denoise_core.s2a.prompts import Prompts
from denoise_core.types import Passage

Kind = Literal["plain", "instructed", "stepwise"]


class Baseline:
    """Answers from all passages in one call (System 2 Attention, sections 2.3 and 3.1.4).

    ``plain`` just asks, ``instructed`` adds that opinion and irrelevance are to be ignored, in the words that
    S2A's second step uses, ``stepwise`` asks
    for steps first (zero-shot chain of thought). The paper's *oracle* is ``plain`` on the question and passages
    without distraction. Raises `InputError` for another ``kind``.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        kind: Kind = "plain",
    ) -> None:
        if kind not in get_args(Kind):
            raise InputError(
                f"kind={kind!r}: expected one of {', '.join(map(repr, get_args(Kind)))}"
            )
        self.llm = expect_llm(llm)
        self.kind: Kind = kind

    def answer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """The model's answer from question and passages, with its trace."""
        answer, trace = run(self.flow(question, passages))
        return replace(answer, trace=trace)

    async def aanswer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """`answer` for async; the same result."""
        answer, trace = await arun(self.flow(question, passages))
        return replace(answer, trace=trace)

    def flow(self, question: str, passages: Sequence[Passage]) -> Flow[S2AAnswer]:
        """The same as a flow, for a driver of your own."""
        p = Prompts()
        prompt = {
            "plain": p.answer,
            "instructed": p.answer_fairly,
            "stepwise": p.answer_stepwise,
        }[self.kind]
        text = yield from answer_from_passages(self.llm, prompt, question, passages)
        return S2AAnswer(text, question, S2AResult(question, tuple(passages)))
