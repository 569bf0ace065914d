"""System 2 Attention as runnables: `S2ARunnable` answers a question, `S2AMessages` clears a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field, field_validator
from typing_extensions import TypedDict, override

from denoise_core import Guard, InputError
from denoise_core._secrets import PickledModel
from denoise_core.running.budget import at_most
from denoise_core.running.record import bounded_summary_of, summary_of
from denoise_core.s2a import S2A, S2AAnswer, S2ADenoiser
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.documents import HEADER_KEYS, Readable, read_documents
from langchain_denoise.convert.history import Scope, Turn
from langchain_denoise.likes import LLMLike
from langchain_denoise.models.chat_llm import as_llm
from langchain_denoise.observe import atell, tell


class S2AInput(TypedDict):
    """A question and what is to be read for it: documents, strings, or one text."""

    question: str
    context: str | Sequence[Document | str]


class S2AOutput(TypedDict):
    """The answer, the question as it was put (cleared of opinion), what was read, and the record of the run."""

    question: str
    answer: str
    context: list[Document]
    denoise: dict[str, Any]


class S2ARunnable(PickledModel, RunnableSerializable[S2AInput, S2AOutput]):
    """Clears the context of what is irrelevant or opinion, then answers from what is left.

    Both steps of the paper (section 2), with the same model. For prompts, a cache and what is shown of your own
    use `denoise_core.s2a.S2A` with a `ChatModelLLM`.
    """

    model: LLMLike
    """A chat model, a runnable that takes messages and gives one, a name as ``"openai:..."``, or a core LLM."""

    variant: Variant = "select"
    """``"select"`` and its like keep the source's own characters; the others have the model write them anew."""

    on_error: OnError = "keep"
    """What an unreadable reply gives for the document it was about."""

    max_concurrency: int = Field(default=10, ge=1)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, model: Any) -> Any:
        as_llm(model)  # raises, and says what to give
        return model

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @override
    def invoke(self, input: S2AInput, config: RunnableConfig | None = None, **kwargs: Any) -> S2AOutput:
        return self._call_with_config(self._answer, input, config)

    @override
    async def ainvoke(self, input: S2AInput, config: RunnableConfig | None = None, **kwargs: Any) -> S2AOutput:
        return await self._acall_with_config(self._aanswer, input, config)

    def _answer(self, input: S2AInput, run_manager: ParentRunManager, config: RunnableConfig) -> S2AOutput:
        question, documents = _read(input)
        s2a = self._s2a()
        read = Readable(documents, HEADER_KEYS, Guard(s2a.denoiser, on_error=self.on_error))
        with at_most(config.get("max_concurrency")):
            answer = s2a.answer(question, read.passages)
        output, short = _output(read, answer)
        tell(run_manager, {"question": question, "documents": len(documents)}, short, output["denoise"])
        return output

    async def _aanswer(
        self, input: S2AInput, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> S2AOutput:
        question, documents = _read(input)
        s2a = self._s2a()
        read = Readable(documents, HEADER_KEYS, Guard(s2a.denoiser, on_error=self.on_error))
        with at_most(config.get("max_concurrency")):
            answer = await s2a.aanswer(question, read.passages)
        output, short = _output(read, answer)
        await atell(run_manager, {"question": question, "documents": len(documents)}, short, output["denoise"])
        return output

    def _s2a(self) -> S2A:
        return S2A(
            as_llm(self.model),
            variant=self.variant,
            on_error=self.on_error,
            max_concurrency=self.max_concurrency,
        )


class S2AMessages(PickledModel, RunnableSerializable[Any, list[BaseMessage]]):
    """Messages in (whatever a chat model takes), messages out: the user's own words, cleared of opinion and of
    what is beside the question.

    Stands before a chat model: ``prompt | S2AMessages(model=model) | model``. ``scope`` is the user's
    ``"latest"`` message or all of the ``"history"``. Other messages pass as they are; a cleared one keeps its
    id, and its original text in ``response_metadata["denoise"]``, which models are not sent.
    """

    model: LLMLike
    variant: Variant = "select"
    scope: Scope = "latest"
    on_error: OnError = "keep"
    max_concurrency: int = Field(default=10, ge=1)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, model: Any) -> Any:
        as_llm(model)  # raises, and says what to give
        return model

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[BaseMessage]:
        return self._call_with_config(self._clear, input, config)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[BaseMessage]:
        return await self._acall_with_config(self._aclear, input, config)

    def _clear(self, input: Any, run_manager: ParentRunManager, config: RunnableConfig) -> list[BaseMessage]:
        messages, turn = self._turn(input)
        if turn is None:
            return messages
        with at_most(config.get("max_concurrency")):
            result = self._denoiser().denoise(turn.question, turn.passages)
        short, whole = bounded_summary_of(turn.passages, result), summary_of(turn.passages, result)
        tell(run_manager, {"question": turn.question}, short, whole)
        return turn.cleared(result)

    async def _aclear(
        self, input: Any, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> list[BaseMessage]:
        messages, turn = self._turn(input)
        if turn is None:
            return messages
        with at_most(config.get("max_concurrency")):
            result = await self._denoiser().adenoise(turn.question, turn.passages)
        short, whole = bounded_summary_of(turn.passages, result), summary_of(turn.passages, result)
        await atell(run_manager, {"question": turn.question}, short, whole)
        return turn.cleared(result)

    def _turn(self, given: Any) -> tuple[list[BaseMessage], Turn | None]:
        if isinstance(given, PromptValue):
            messages = given.to_messages()
        elif isinstance(given, Sequence):
            messages = convert_to_messages([given] if isinstance(given, str) else given)
        else:
            raise InputError(f"expected messages or a prompt, got {type(given).__name__}")
        return messages, Turn.of(messages, self.scope, self.variant)

    def _denoiser(self) -> S2ADenoiser:
        return S2ADenoiser(
            as_llm(self.model),
            variant=self.variant,
            on_error=self.on_error,
            max_concurrency=self.max_concurrency,
        )


def _read(input: S2AInput) -> tuple[str, list[Document]]:
    if not isinstance(input, dict) or not {"question", "context"} <= set(input):
        got = f"the keys {sorted(input)}" if isinstance(input, dict) else f"a {type(input).__name__}"
        raise InputError(f"expected {{'question': ..., 'context': ...}}, got {got}")
    context = input["context"]
    items = [context] if isinstance(context, (str, Document)) else context
    documents = read_documents((Document(page_content=i) if isinstance(i, str) else i for i in items), "context")
    return input["question"], documents


def _output(read: Readable, answer: S2AAnswer) -> tuple[S2AOutput, dict[str, Any]]:
    """The output, and its record bounded for a span."""
    result, passages = answer.result, read.passages
    whole = replace(result, trace=answer.trace)
    told = replace(whole, failures={**whole.failures, **read.failures})
    output: S2AOutput = {
        "question": answer.question,
        "answer": answer.text,
        "context": read.back(whole),
        "denoise": summary_of(passages, told),
    }
    return output, bounded_summary_of(passages, told)
