"""`AugmentedRunnable`: a question in, a checked answer out; the whole LLM-Augmenter loop as one runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal, NotRequired

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict, override

from denoise_core import InputError, Message
from denoise_core._secrets import PickledModel
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.streaming import StreamEvent, draft_first, held_back
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.running.budget import at_most
from langchain_denoise.convert.documents import evidence_documents
from langchain_denoise.convert.messages import from_messages
from langchain_denoise.observe import atell, short_record, tell
from langchain_denoise.verification.streamed import Streamed


class AugmentedInput(TypedDict):
    """A question, and the messages before it if there are any."""

    question: str
    history: NotRequired[Sequence[BaseMessage]]


class AugmentedOutput(TypedDict):
    """``answer`` and how far to trust it.

    ``outcome`` is supported, unsupported, unknown, abstained or failed; ``context`` the evidence the answer was
    written from, in the order of its citations (``[1]`` is the first); ``denoise`` the record of the run in plain
    JSON: why it stopped, every attempt with its score, reasons and feedback, searches, failures, calls, tokens.
    """

    question: str
    answer: str
    outcome: str
    context: list[Document]
    denoise: dict[str, Any]


class AugmentedRunnable(PickledModel, RunnableSerializable[str | AugmentedInput, AugmentedOutput]):
    """Runs a `denoise_core.augmenter.Augmenter` as a step of a chain.

    Build it from ``Augmenter(ChatModelLLM(model), RetrieverAdapter(retriever), ...)``. Searches, drafts and
    judgements are children of this run in a trace; drafts never reach a user's token stream, so ``stream``
    yields one value: the answer, once it is known how far it holds.
    """

    augmenter: Augmenter
    """The loop, with its utility, policy, limits and budget."""

    max_concurrency: int | None = Field(default=None, ge=1)
    """At most this many calls of the loop at once; None leaves it to the loop."""

    on_answer: Callable[[Answer], Any] | None = None
    """Called with each `denoise_core.augmenter.Answer`: to record it, to replay it, to learn from it."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @override
    def invoke(
        self, input: str | AugmentedInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AugmentedOutput:
        return self._call_with_config(self._answer, input, config)

    @override
    async def ainvoke(
        self, input: str | AugmentedInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AugmentedOutput:
        return await self._acall_with_config(self._aanswer, input, config)

    def _answer(
        self, input: str | AugmentedInput, run_manager: ParentRunManager, config: RunnableConfig
    ) -> AugmentedOutput:
        question, history = _read(input)
        with at_most(self.max_concurrency), at_most(config.get("max_concurrency")):
            answer = self.augmenter.answer(question, history)
        output = _output(self._heard(answer))
        tell(run_manager, {"question": question}, short_record(output["denoise"]), output["denoise"])
        return output

    async def _aanswer(
        self, input: str | AugmentedInput, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> AugmentedOutput:
        question, history = _read(input)
        with at_most(self.max_concurrency), at_most(config.get("max_concurrency")):
            answer = await self.augmenter.aanswer(question, history)
        output = _output(self._heard(answer))
        await atell(run_manager, {"question": question}, short_record(output["denoise"]), output["denoise"])
        return output

    def stream_checked(
        self,
        input: str | AugmentedInput,
        config: RunnableConfig | None = None,
        *,
        show: Literal["held_back", "draft_first"] = "held_back",
    ) -> Iterator[StreamEvent]:
        """Events of `denoise_core.augmenter.streaming`: `Text` as sentences pass (``"held_back"``) or as the first
        draft is written (``"draft_first"``), `Restarted` when it is withdrawn, at last `Finished` or `Revised`
        with the `Answer`."""
        question, history = _read(input)
        follow = held_back if show == "held_back" else draft_first

        def begin() -> Iterator[StreamEvent]:
            return iter(follow(self.augmenter, question, history))

        yield from Streamed(self.get_name(), input, question, self._heard, self.max_concurrency).events(
            begin, config
        )

    async def astream_checked(
        self,
        input: str | AugmentedInput,
        config: RunnableConfig | None = None,
        *,
        show: Literal["held_back", "draft_first"] = "held_back",
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""
        question, history = _read(input)
        follow = held_back if show == "held_back" else draft_first

        def begin() -> AsyncIterator[StreamEvent]:
            return aiter(follow(self.augmenter, question, history))

        asked = Streamed(self.get_name(), input, question, self._heard, self.max_concurrency)
        async with aclosing(asked.aevents(begin, config)) as events:
            async for event in events:
                yield event

    def _heard(self, answer: Answer) -> Answer:
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer


def _read(input: str | AugmentedInput) -> tuple[str, tuple[Message, ...]]:
    if isinstance(input, str):
        return input, ()
    if not isinstance(input, dict) or "question" not in input:
        got = f"a dict with the keys {sorted(input)}" if isinstance(input, dict) else f"a {type(input).__name__}"
        raise InputError(f"expected a question as a str, or {{'question': ..., 'history': [...]}}, got {got}")
    return input["question"], from_messages(input.get("history", ()))


def _output(answer: Answer) -> AugmentedOutput:
    memory = answer.memory
    best = memory.best
    evidence = best.evidence if best else memory.evidence
    return {
        "question": memory.question,
        "answer": answer.text,
        "outcome": str(answer.outcome),
        "context": evidence_documents(evidence, memory.retrieved, memory.question),
        "denoise": answer_record(answer),
    }
