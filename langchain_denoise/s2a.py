"""System 2 Attention on a conversation: `S2AMessages` removes opinion from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, field_validator
from typing_extensions import override

from denoise_core import InputError
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.s2a import S2ADenoiser, S2AResult
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.chain_values import extract_messages
from langchain_denoise.convert.history import UserTurn
from langchain_denoise.convert.messages import read_messages
from langchain_denoise.models.chat_llm import as_llm
from langchain_denoise.observe import aemit_record, emit_record, result_summaries
from langchain_denoise.settings import LLMLike


class S2AMessages(RunnableSerializable[Any, list[BaseMessage]]):
    """Removes opinion and what does not matter from the user's own message.

    Messages go in (whatever a chat model takes) and messages come out. Put it before a
    chat model: ``prompt | S2AMessages(model=model) | model``. The user's last message is
    denoised, and other messages pass unchanged. A changed message keeps its id, and its original text in
    ``response_metadata["denoise"]``, which is never sent to a model.

    >>> from langchain_core.language_models import GenericFakeChatModel
    >>> model = GenericFakeChatModel(messages=iter(["2"]))  # the clause that asks
    >>> opinion = "I am sure it is Lyon. What is the capital?"
    >>> [message.text for message in S2AMessages(model=model).invoke(opinion)]
    ['What is the capital?']
    """

    model: LLMLike
    variant: Variant = "select"
    on_error: OnError = "keep"

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: Any) -> Any:
        as_llm(model)
        return model

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        return self._call_with_config(self._denoise, input, config)

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        return await self._acall_with_config(self._adenoise, input, config)

    def _denoise(
        self, input: Any, run_manager: ParentRunManager, config: RunnableConfig
    ) -> list[BaseMessage]:
        messages, turn = self._read_turn(input)
        if turn is None:
            return messages
        with limit_concurrency(config.get("max_concurrency")):
            result = self._denoiser().denoise(turn.question, [turn.passage])
        result = _leave_out_relevance(result)
        run_inputs = {"question": turn.question}
        emit_record(run_manager, run_inputs, *result_summaries([turn.passage], result))
        return turn.apply_result(result)

    async def _adenoise(
        self, input: Any, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> list[BaseMessage]:
        messages, turn = self._read_turn(input)
        if turn is None:
            return messages
        with limit_concurrency(config.get("max_concurrency")):
            result = await self._denoiser().adenoise(turn.question, [turn.passage])
        result = _leave_out_relevance(result)
        run_inputs = {"question": turn.question}
        summaries = result_summaries([turn.passage], result)
        await aemit_record(run_manager, run_inputs, *summaries)
        return turn.apply_result(result)

    def _read_turn(self, input: Any) -> tuple[list[BaseMessage], UserTurn | None]:
        if isinstance(input, str):
            input = [input]
        messages = extract_messages(input) or read_messages(input)
        if messages is None:
            type_name = type(input).__name__
            raise InputError(f"expected messages or a prompt, got {type_name}")
        return messages, UserTurn.from_messages(messages, self.variant)

    def _denoiser(self) -> S2ADenoiser:
        llm = as_llm(self.model)
        return S2ADenoiser(llm, variant=self.variant, on_error=self.on_error)


def _leave_out_relevance(result: S2AResult) -> S2AResult:
    """The result without what the model says of an answer: a user's message asks for one."""
    if result.relevant is None:
        return result
    return replace(result, relevant=None, note=None)
