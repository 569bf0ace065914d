"""`S2AMiddleware`: the model reads the user's messages without opinion.

The conversation itself keeps them unchanged.
"""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentState
from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime
from typing_extensions import override

from denoise_core.runtime.record import RECORD_KEY
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.chain_values import MESSAGES_KEY
from langchain_denoise.convert.history import (
    has_current_view,
    question_position,
    record_on_message,
    with_view,
)
from langchain_denoise.convert.messages import Messages
from langchain_denoise.middleware.base import ViewMiddleware
from langchain_denoise.observe import Record
from langchain_denoise.s2a import S2AMessages
from langchain_denoise.settings import LLMLike


class S2AMiddleware(ViewMiddleware):
    """System 2 Attention on the user's message, once a turn, before the agent starts.

    The denoised text is stored in the message's ``response_metadata`` and replaces the
    content in each request to the model. So it costs one call a turn, survives in a
    checkpoint, and the user still sees the original. The settings are those of
    `S2AMessages`, whose span shows the change. A reply that does not ask the user's
    question, or cannot be parsed, changes nothing.
    """

    def __init__(
        self,
        model: LLMLike,
        *,
        variant: Variant = "select",
        on_error: OnError = "keep",
    ) -> None:
        super().__init__()
        self.s2a_messages = S2AMessages(model=model, variant=variant, on_error=on_error)

    @override
    def before_agent(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> Record | None:
        messages = _pending_messages(state)
        if not messages:
            return None
        return _state_update(messages, self.s2a_messages.invoke(messages))

    @override
    async def abefore_agent(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> Record | None:
        messages = _pending_messages(state)
        if not messages:
            return None
        return _state_update(messages, await self.s2a_messages.ainvoke(messages))


def _pending_messages(state: AgentState[Any]) -> list[AnyMessage]:
    """The messages, or none if the last question was denoised before a resume."""
    messages = state["messages"]
    position = question_position(messages)
    if position is None or has_current_view(messages[position]):
        return []
    return messages


def _state_update(originals: Messages, denoised: Messages) -> Record:
    """The question with its denoised text as a view; an unchanged one has a view too."""
    position = question_position(originals) or 0
    original = originals[position]
    message = denoised[position]
    record = message.response_metadata.get(RECORD_KEY, {})
    marked_message = with_view(record_on_message(original, record), message.content)
    return {MESSAGES_KEY: [marked_message]}
