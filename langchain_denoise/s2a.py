"""System 2 Attention on a conversation: `S2AMessages` removes opinion from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import field_validator
from typing_extensions import override

from denoise_core import InputError
from denoise_core.s2a import S2ADenoiser, S2AResult
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.chain_values import extract_messages
from langchain_denoise.convert.history import UserTurn
from langchain_denoise.convert.messages import read_messages
from langchain_denoise.models.chat_llm import as_llm
from langchain_denoise.observe import (
    AnyRunManager,
    Record,
    RecordedCall,
    RecordedRunnable,
    RunRecords,
    result_summaries,
)
from langchain_denoise.settings import LLMLike


class S2AMessages(RecordedRunnable[Any, list[BaseMessage]]):
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
    def _prepare_call(
        self, input: Any, run: AnyRunManager, config: RunnableConfig, options: Record
    ) -> RecordedCall:
        if isinstance(input, str):
            input = [input]
        messages = extract_messages(input) or read_messages(input)
        if messages is None:
            type_name = type(input).__name__
            raise InputError(f"expected messages or a prompt, got {type_name}")
        turn = UserTurn.from_messages(messages, self.variant)
        return _TurnCall(messages, turn, self._denoiser())

    def _denoiser(self) -> S2ADenoiser:
        llm = as_llm(self.model)
        return S2ADenoiser(llm, variant=self.variant, on_error=self.on_error)


class _TurnCall(RecordedCall):
    """One conversation, whose turn is None if there is nothing to denoise."""

    def __init__(
        self,
        messages: list[BaseMessage],
        turn: UserTurn | None,
        denoiser: S2ADenoiser,
    ) -> None:
        self.messages = messages
        self.turn = turn
        self.denoiser = denoiser

    @override
    def run(self) -> S2AResult | None:
        turn = self.turn
        if turn is None:
            return None
        result = self.denoiser.denoise(turn.question, [turn.passage])
        return _leave_out_relevance(result)

    @override
    async def arun(self) -> S2AResult | None:
        turn = self.turn
        if turn is None:
            return None
        result = await self.denoiser.adenoise(turn.question, [turn.passage])
        return _leave_out_relevance(result)

    @override
    def build_output(self, result: S2AResult | None) -> list[BaseMessage]:
        if self.turn is None or result is None:
            return self.messages
        return self.turn.apply_result(result)

    @override
    def records(self, result: S2AResult) -> RunRecords:
        turn = cast("UserTurn", self.turn)
        summaries = result_summaries([turn.passage], result)
        return ({"question": turn.question}, *summaries)


def _leave_out_relevance(result: S2AResult) -> S2AResult:
    """The result without what the model says of an answer: a user's message asks for one."""
    if result.relevant is None:
        return result
    return replace(result, relevant=None, note=None)
