"""`verified(chain)`: judge, feedback and retry around any chain or agent, without rewriting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncParentRunManager,
    ParentRunManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.base import RunnableLike, coerce_to_runnable
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict
from typing_extensions import override

from denoise_core import InputError, Message, Passage, Reply
from denoise_core.augmenter import Answer
from denoise_core.augmenter.traces.record import answer_record
from langchain_denoise.convert import places
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.verification.verifier import Verifier


def verified(
    chain: RunnableLike[Any, Any],
    verifier: Verifier | None = None,
    *,
    question: str | Callable[..., Any] | None = None,
    answer: str | Callable[..., Any] | None = None,
    evidence: str | Callable[..., Any] | None = None,
    feedback: str | Callable[..., Any] | None = None,
) -> VerifiedRunnable:
    """``chain`` with its answers judged against its own evidence, and asked again while they do not hold.

    Input and output keep their form. ``question``, ``answer`` and ``evidence`` say where these stand: a key,
    or a function of the input, of the output, and of both. Left out, they are looked for where LangChain's own
    chains and agents keep them: a string, messages, or one of the keys ``question input query``,
    ``answer output result``, ``context documents source_documents``; for agents the evidence is what the tools
    of this turn brought. ``feedback`` is a key of the input to put the rejected draft and what is wrong with it
    under, or a function ``(input, draft, feedback) -> input``; left out, they are appended to the messages, or
    else to the question, which a chain that retrieves by its question then searches for as well.

    The answer sent is the best of all drafts by the judge's score. The record (outcome, stop reason, every
    attempt) is in ``output["denoise"]``, in ``response_metadata["denoise"]`` of a message, and in the custom
    event ``denoise``; an output that is a bare string carries none.
    """
    return VerifiedRunnable(
        chain=coerce_to_runnable(chain),
        verifier=verifier or Verifier(),
        question=question,
        answer=answer,
        evidence=evidence,
        feedback=feedback,
    )


class VerifiedRunnable(RunnableSerializable[Any, Any]):
    """A chain with verification around it; see `verified`, which builds it.

    ``stream`` yields one value: nothing is shown before it is judged. Inner calls are children of this run.
    """

    chain: Runnable[Any, Any]
    verifier: Verifier
    question: str | Callable[..., Any] | None = None
    answer: str | Callable[..., Any] | None = None
    evidence: str | Callable[..., Any] | None = None
    feedback: str | Callable[..., Any] | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if callable(self.answer) and self.verifier.limits.unsupported != "send":
            raise InputError(
                f"unsupported={self.verifier.limits.unsupported!r} puts another answer into the output; it needs "
                "answer='key'; a function only finds it"
            )

    @override
    def get_input_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        return self.chain.get_input_schema(config)

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self._call_with_config(self._verify, input, config, **kwargs)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await self._acall_with_config(self._averify, input, config, **kwargs)

    def _verify(self, input: Any, run_manager: ParentRunManager, config: RunnableConfig, **kwargs: Any) -> Any:
        drafts = ChainDrafts(self, input, kwargs)
        answer = self.verifier.answer(places.question_in(input, self.question), drafts)
        output, record = drafts.output_of(answer)
        dispatch_custom_event("denoise", record)
        return output

    async def _averify(
        self, input: Any, run_manager: AsyncParentRunManager, config: RunnableConfig, **kwargs: Any
    ) -> Any:
        drafts = ChainDrafts(self, input, kwargs)
        answer = await self.verifier.aanswer(places.question_in(input, self.question), drafts)
        output, record = drafts.output_of(answer)
        await adispatch_custom_event("denoise", record)
        return output


class ChainDrafts:
    """One input's way through the chain, once for each draft; keeps what the chain gave each time."""

    def __init__(self, settings: VerifiedRunnable, given: Any, options: dict[str, Any]) -> None:
        self.settings = settings
        self.given = given
        self.options = options
        self.outputs: list[Any] = []
        self.evidence: Sequence[Passage] = ()

    def complete(self, messages: Sequence[Message]) -> Reply:
        given = self._given(messages)
        return self._take(given, self.settings.chain.invoke(given, internal_config(), **self.options))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        given = self._given(messages)
        return self._take(given, await self.settings.chain.ainvoke(given, internal_config(), **self.options))

    def _given(self, messages: Sequence[Message]) -> Any:
        if len(messages) == 1:
            return self.given
        return places.with_feedback(self.given, messages, self.settings.feedback, self.settings.question)

    def _take(self, given: Any, brought: Any) -> Reply:
        text = places.answer_in(brought, self.settings.answer)
        self.evidence = places.evidence_in(given, brought, self.settings.evidence)
        self.outputs.append(brought)
        return Reply(text)

    def output_of(self, answer: Answer) -> tuple[Any, dict[str, Any]]:
        """The output that brought the answer, with the record of the run in it, and that record."""
        memory = answer.memory
        best = next(i for i, a in enumerate(memory.attempts) if a is memory.best)
        output, record = self.outputs[best], answer_record(answer)
        if answer.text != memory.attempts[best].candidate:
            output = places.with_answer(output, answer.text, self.settings.answer)
        return places.with_record(output, record), record
