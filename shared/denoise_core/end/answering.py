"""Answer from the passages a denoiser kept.

With a local model `DenoisedAnswerer` is the paper's whole END: the first layers find
the noise and the same model answers from the rest (Early Noise Dropping, section 2.3,
step 3). Any other `LLM` works just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_core.protocols import LLM, Denoiser
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow, complete, denoise
from denoise_core.runtime.flow import arun, run
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class DenoisedAnswer:
    """The answer, the passages it was written from, and every effect on the way."""

    text: str
    result: DenoiseResult
    trace: Trace


class DenoisedAnswerer:
    """``denoiser`` in front of ``llm`` (Early Noise Dropping, section 2.3, step 3).

    With a local model give both the same object, so that its weights are in memory
    once::

        model = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=False
        ).eval()
        denoiser = ENDDenoiser(ProbeScorer(model, probe, tokenizer=tokenizer))
        answerer = DenoisedAnswerer(denoiser, LocalLLM(model, tokenizer))
        answerer.answer("Who wrote it?", passages).text

    To stream, ask the LLM: ``llm.stream(answer_messages(query, result.passages))``.

    Args:
        denoiser: Chooses the passages.
        llm: Answers from them.
        budget: Limits each answer.
    """

    def __init__(
        self, denoiser: Denoiser, llm: LLM, *, budget: Budget | None = None
    ) -> None:
        self.denoiser = denoiser
        self.llm = llm
        self.budget = budget

    def answer(self, query: str, passages: Sequence[Passage]) -> DenoisedAnswer:
        """Raises what the denoiser or the LLM raises, with the trace on it."""
        answer_flow = self._answer_flow(query, tuple(passages))
        denoised_answer, full_trace = run(answer_flow, budget=self.budget)
        return replace(denoised_answer, trace=full_trace)

    async def aanswer(self, query: str, passages: Sequence[Passage]) -> DenoisedAnswer:
        """`answer` without blocking the event loop."""
        answer_flow = self._answer_flow(query, tuple(passages))
        denoised_answer, full_trace = await arun(answer_flow, budget=self.budget)
        return replace(denoised_answer, trace=full_trace)

    def _answer_flow(
        self, query: str, passages: tuple[Passage, ...]
    ) -> Flow[DenoisedAnswer]:
        denoise_result = yield from denoise(query, passages, denoiser=self.denoiser)
        prompt_messages = answer_messages(query, denoise_result.passages)
        llm_reply = yield from complete(prompt_messages, tag="answer", llm=self.llm)
        return DenoisedAnswer(llm_reply.text, denoise_result, Trace())
