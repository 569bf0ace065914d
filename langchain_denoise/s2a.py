"""System 2 Attention on a conversation: `S2AMessages` removes opinion from it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr, field_validator
from typing_extensions import override

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.record import result_summary
from denoise_core.s2a.message import MessageDenoiser, NeutralMessage
from denoise_core.s2a.options import OnError, Variant
from denoise_core.s2a.question import MESSAGE_ID
from langchain_denoise.convert.chain_values import extract_messages
from langchain_denoise.convert.history import (
    has_several_texts,
    question_position,
    record_on_message,
    replace_message_text,
)
from langchain_denoise.convert.messages import read_messages
from langchain_denoise.models.chat_llm import as_llm
from langchain_denoise.observe import (
    AnyRunManager,
    Record,
    RecordedCall,
    RecordedRunnable,
    RunRecord,
)
from langchain_denoise.settings import BuiltDenoiser, LLMLike


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

    _built: BuiltDenoiser = PrivateAttr(default_factory=BuiltDenoiser)

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
            raise InputError(
                f"expected messages or a prompt, got {type(input).__name__}"
            )
        settings = [self.model, self.variant, self.on_error]
        denoiser = self._built.denoiser_for(settings, self._build_denoiser)
        return _MessageCall(messages, denoiser)

    def _build_denoiser(self) -> MessageDenoiser:
        llm = as_llm(self.model)
        return MessageDenoiser(llm, variant=self.variant, on_error=self.on_error)


class _MessageCall(RecordedCall):
    """One conversation; its result is None without a message to denoise."""

    def __init__(self, messages: list[BaseMessage], denoiser: MessageDenoiser) -> None:
        self.messages = messages
        self.denoiser = denoiser
        self.text: str | None = None
        self.position = question_position(messages)
        if self.position is None:
            return
        if has_several_texts(messages[self.position]):
            problem = "a message has several blocks of text"
            log_fallback("S2AMessages", problem, "the message was kept as it was")
        else:
            self.text = str(messages[self.position].text)

    @override
    def run(self) -> NeutralMessage | None:
        return None if self.text is None else self.denoiser.neutralize(self.text)

    @override
    async def arun(self) -> NeutralMessage | None:
        return None if self.text is None else await self.denoiser.aneutralize(self.text)

    @override
    def build_output(self, result: NeutralMessage | None) -> list[BaseMessage]:
        if self.position is None or result is None:
            return self.messages
        message = self.messages[self.position]
        ranges = [[drop.span.start, drop.span.end] for drop in result.dropped]
        record = {"fallback": result.fallback, "left_out": ranges}
        if result.text != result.source.strip():
            record["original"] = result.source
            message = replace_message_text(message, result.text, record)
        elif result.fallback:
            message = record_on_message(message, record)
        conversation = list(self.messages)
        conversation[self.position] = message
        return conversation

    @override
    def record(self, result: NeutralMessage) -> RunRecord:
        original = Passage(result.source, MESSAGE_ID)
        kept = Passage(result.text, MESSAGE_ID, is_rewritten=True)
        denoised = DenoiseResult(
            result.question, (kept,), result.dropped, result.trace, result.fallback
        )
        return {"question": result.source}, result_summary([original], denoised)
