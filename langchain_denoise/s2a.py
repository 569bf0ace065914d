"""System 2 Attention on a conversation: `S2AMessages` clears the user's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, field_validator
from typing_extensions import override

from denoise_core import InputError
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.s2a import S2ADenoiser
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.history import MessageScope, UserTurn
from langchain_denoise.models.chat_llm import as_llm
from langchain_denoise.observe import SUMMARY_FUNCTIONS, aemit_record, emit_record
from langchain_denoise.settings import LLMLike


class S2AMessages(RunnableSerializable[Any, list[BaseMessage]]):
    """Messages in (whatever a chat model takes), messages out: the user's own words, cleared of opinion and of
    what is beside the question.

    Stands before a chat model: ``prompt | S2AMessages(model=model) | model``. ``scope`` is the user's
    ``"latest"`` message or all of the ``"history"``. Other messages pass as they are; a cleared one keeps its
    id, and its original text in ``response_metadata["denoise"]``, which models are not sent.

    >>> from langchain_denoise.testing import FunctionChatModel
    >>> model = FunctionChatModel(reply=lambda messages: "2")  # yours names the clauses that ask
    >>> [m.text for m in S2AMessages(model=model).invoke("I am sure it is Lyon. What is the capital?")]
    ['What is the capital?']
    """

    model: LLMLike
    variant: Variant = "select"
    scope: MessageScope = "latest"
    on_error: OnError = "keep"

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
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        return self._call_with_config(self._clear, input, config)

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        return await self._acall_with_config(self._aclear, input, config)

    def _clear(
        self, input: Any, run_manager: ParentRunManager, config: RunnableConfig
    ) -> list[BaseMessage]:
        messages, turn = self._turn(input)
        if turn is None:
            return messages
        with limit_concurrency(config.get("max_concurrency")):
            result = self._denoiser().denoise(turn.question, turn.passages)
        emit_record(
            run_manager,
            {"question": turn.question},
            *(f(turn.passages, result) for f in SUMMARY_FUNCTIONS),
        )
        return turn.apply_result(result)

    async def _aclear(
        self, input: Any, run_manager: AsyncParentRunManager, config: RunnableConfig
    ) -> list[BaseMessage]:
        messages, turn = self._turn(input)
        if turn is None:
            return messages
        with limit_concurrency(config.get("max_concurrency")):
            result = await self._denoiser().adenoise(turn.question, turn.passages)
        await aemit_record(
            run_manager,
            {"question": turn.question},
            *(f(turn.passages, result) for f in SUMMARY_FUNCTIONS),
        )
        return turn.apply_result(result)

    def _turn(self, given: Any) -> tuple[list[BaseMessage], UserTurn | None]:
        if isinstance(given, PromptValue):
            messages = given.to_messages()
        elif isinstance(given, Sequence):
            messages = convert_to_messages([given] if isinstance(given, str) else given)
        else:
            raise InputError(
                f"expected messages or a prompt, got {type(given).__name__}"
            )
        return messages, UserTurn.from_messages(messages, self.scope, self.variant)

    def _denoiser(self) -> S2ADenoiser:
        return S2ADenoiser(
            as_llm(self.model), variant=self.variant, on_error=self.on_error
        )
