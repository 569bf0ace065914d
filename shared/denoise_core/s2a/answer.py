"""Both steps of S2A: denoise the context, then answer from the rest (paper, section 2, steps 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from denoise_core.protocols import LLM
from denoise_core.result import Trace
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.denoiser import S2ADenoiser, S2AResult, have_text
from denoise_core.s2a.message import MessageDenoiser
from denoise_core.s2a.options import OnError, Options, PieceRule, Variant
from denoise_core.s2a.prompts import Prompt
from denoise_core.s2a.question import MESSAGE_ID
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class S2AAnswer:
    """The answer, the question it answers, and what step 1 made of the passages."""

    text: str
    question: str
    result: S2AResult
    trace: Trace = field(default_factory=Trace)


class S2A:
    """Answers a question by a model that never sees what step 1 left out.

    System 2 Attention, arXiv 2311.11829, section 2.2. Settings as in `S2ADenoiser`; one
    model selects and answers, within one budget. Without passages the question is
    itself the text that is cleared, as in the paper's first experiment
    (`MessageDenoiser`).
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "select",
        keep: PieceRule | None = None,
        on_error: OnError = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        self.budget = budget
        self.denoiser = S2ADenoiser(
            llm,
            variant=variant,
            keep=keep,
            on_error=on_error,
            max_concurrency=max_concurrency,
            options=options,
        )
        self.llm = self.denoiser.llm

    def answer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """Return the answer; a failed call of step 1 follows ``on_error``.

        Raises:
            Exception: What the answering call raises.
        """
        flow = self.flow(question, passages)
        answer, trace = run(
            flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency
        )
        return replace(answer, trace=trace)

    async def aanswer(self, question: str, passages: Sequence[Passage]) -> S2AAnswer:
        """`answer` for async; the same result."""
        flow = self.flow(question, passages)
        answer, trace = await arun(
            flow, budget=self.budget, max_concurrency=self.denoiser.max_concurrency
        )
        return replace(answer, trace=trace)

    def flow(self, question: str, passages: Sequence[Passage]) -> Flow[S2AAnswer]:
        """Both steps, for `run`, `arun` or another flow with ``yield from``."""
        denoiser = self.denoiser
        prompt = denoiser.options.prompts.step_2(denoiser.variant)
        original = (question, passages)
        if have_text(passages):
            result = yield from denoiser.flow(question, passages)
        else:
            result = yield from self._neutralize_alone(question)
        text = yield from answer_from_passages(
            self.llm, prompt, result.query, result.passages, original=original
        )
        return S2AAnswer(text, result.query, result)

    def _neutralize_alone(self, question: str) -> Flow[S2AResult]:
        denoiser = self.denoiser
        message_denoiser = MessageDenoiser(
            self.llm,
            variant=denoiser.variant,
            on_error=denoiser.on_error,
            options=denoiser.options,
        )
        message_denoiser.record = denoiser.record
        neutral_message = yield from message_denoiser.flow(question)
        context_passages: tuple[Passage, ...] = ()
        context = neutral_message.context
        if context:
            context_passage = Passage(context, MESSAGE_ID, is_rewritten=True)
            context_passages = (context_passage,)
        return S2AResult(
            neutral_message.question,
            context_passages,
            neutral_message.dropped,
            fallback=neutral_message.fallback,
        )


def answer_from_passages(
    llm: LLM | None,
    prompt: Prompt,
    question: str,
    passages: Sequence[Passage],
    *,
    original: tuple[str, Sequence[Passage]] | None = None,
) -> Flow[str]:
    """Return an answer from the passages alone: step 2.

    Args:
        llm: The model; None for the driver's.
        prompt: One of the prompts ``answer...``.
        question: The cleared question.
        passages: What step 1 kept.
        original: Question and passages as they came, for a prompt that shows them.
    """
    context_text = _context_block(prompt, passages)
    field_values = {"context": context_text, "question": question}
    if "{original}" in prompt.user:
        original_question, original_passages = original or (question, passages)
        original_context = _context_block(prompt, original_passages)
        original_text = f"{original_context}Question:\n{original_question}\n"
        field_values["original"] = original_text
    messages = prompt.render(by_schema=False, **field_values)
    reply = yield from complete(messages, tag="s2a.answer", llm=llm)
    return reply.text.strip()


def _context_block(prompt: Prompt, passages: Sequence[Passage]) -> str:
    """Return the passages as the prompt encloses them; "" without any text."""
    passage_texts = []
    for passage in passages:
        if passage.text.strip():
            passage_text = passage.text_with_header.strip()
            passage_texts.append(passage_text)
    if not passage_texts:
        return ""
    document = "\n\n".join(passage_texts)
    enclosed_document = prompt.enclose(document)
    return f"{enclosed_document}\n\n"
