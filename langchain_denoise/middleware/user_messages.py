"""`S2AMiddleware`: the model reads the user's messages without opinion.

The conversation itself keeps them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentState, ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.runtime import Runtime
from typing_extensions import override

from denoise_core.runtime.record import RECORD_KEY
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.history import (
    question_position,
    record_on_message,
    replace_message_text,
)
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.observe import Record
from langchain_denoise.s2a import S2AMessages
from langchain_denoise.settings import LLMLike

ClearedTexts = dict[str, dict[str, Record]]


def _merge_cleared_texts(
    old: ClearedTexts | None, new: ClearedTexts | None
) -> ClearedTexts:
    merged = dict(old or {})
    for name, messages in (new or {}).items():
        merged[name] = {**merged.get(name, {}), **messages}
    return merged


class S2AState(AgentState[Any]):
    """The agent's state with the denoised texts, by middleware and then by message id.

    Plain JSON, so that a checkpoint can store it.
    """

    # LangGraph looks for the reducer only in the last position.
    denoised_messages: NotRequired[
        Annotated[ClearedTexts, PrivateStateAttr, _merge_cleared_texts]
    ]


class S2AMiddleware(RequestMiddleware):
    """System 2 Attention on the user's message, once a turn, before the agent starts.

    The denoised text is stored in the agent's state and replaces the message in each
    request to the model. So it costs one call a turn, survives in a checkpoint, and the
    user still sees the original. The settings are those of `S2AMessages`, whose span
    shows the change. A reply that does not ask the user's question, or cannot be parsed,
    changes nothing.
    """

    state_schema = S2AState

    def __init__(
        self,
        model: LLMLike,
        *,
        variant: Variant = "select",
        on_error: OnError = "keep",
        name: str = "S2AMiddleware",
    ) -> None:
        super().__init__(name)
        self.s2a_messages = S2AMessages(model=model, variant=variant, on_error=on_error)

    @override
    def before_agent(self, state: S2AState, runtime: Runtime[Any]) -> Record | None:
        messages = self._pending_messages(state)
        if not messages:
            return None
        return self._state_update(messages, self.s2a_messages.invoke(messages))

    @override
    async def abefore_agent(
        self, state: S2AState, runtime: Runtime[Any]
    ) -> Record | None:
        messages = self._pending_messages(state)
        if not messages:
            return None
        return self._state_update(messages, await self.s2a_messages.ainvoke(messages))

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        stored_texts = self._stored_texts(request.state)
        if not stored_texts:
            return request
        messages: list[Any] = []
        message: BaseMessage
        for message in request.messages:
            stored = stored_texts.get(message.id or "") or {}
            if stored.get("text"):
                message = replace_message_text(
                    message, stored["text"], stored["record"]
                )
            elif stored.get("record"):
                message = record_on_message(message, stored["record"])
            messages.append(message)
        return request.override(messages=messages)

    def _pending_messages(self, state: S2AState) -> list[AnyMessage]:
        """The messages, or none if the last question was denoised before a resume."""
        messages = state["messages"]
        position = question_position(messages)
        if position is None or messages[position].id in self._stored_texts(state):
            return []
        return messages

    def _state_update(
        self, originals: Sequence[BaseMessage], denoised: Sequence[BaseMessage]
    ) -> Record:
        position = question_position(originals) or 0
        original = originals[position]
        message = denoised[position]
        # An entry without text marks a question that needed no change.
        stored: Record = {"text": None, "record": {}}
        if message is not original:
            stored["record"] = message.response_metadata[RECORD_KEY]
        if message.content != original.content:
            stored["text"] = str(message.text).strip()
        stored_texts = {str(original.id): stored}
        return {"denoised_messages": {self._name: stored_texts}}

    def _stored_texts(self, state: Mapping[str, Any]) -> Mapping[str, Record]:
        texts_by_middleware: ClearedTexts = state.get("denoised_messages") or {}
        return texts_by_middleware.get(self._name, {})
