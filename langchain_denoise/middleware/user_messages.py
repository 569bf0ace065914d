"""`S2AMiddleware`: the model reads the user's words without opinion; the conversation keeps them as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentState, ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime
from typing_extensions import override

from denoise_core.runtime.record import RECORD_KEY
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.history import (
    MessageScope,
    record_on_message,
    replace_message_text,
)
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.s2a import S2AMessages
from langchain_denoise.settings import LLMLike

ClearedTexts = dict[str, dict[str, dict[str, Any]]]


def _merge(old: ClearedTexts | None, new: ClearedTexts | None) -> ClearedTexts:
    merged = dict(old or {})
    for name, messages in (new or {}).items():
        merged[name] = {**merged.get(name, {}), **messages}
    return merged


class S2AState(AgentState[Any]):
    """The agent's state with the cleared texts: by middleware, then by message id. Plain JSON."""

    # The reducer comes last: LangGraph looks for it there and nowhere else.
    denoised_messages: NotRequired[Annotated[ClearedTexts, PrivateStateAttr, _merge]]


class S2AMiddleware(RequestMiddleware):
    """System 2 Attention on what the user says, once a turn, before the agent starts.

    The cleared text is kept in the agent's state and put in the message's place whenever the model is called;
    so it costs one call a turn, survives in a checkpoint, and the user still sees what they wrote. The settings
    are those of `S2AMessages`, whose span shows what was done. What the model wrote that does not ask the user's
    question, or cannot be read, changes nothing.
    """

    state_schema = S2AState

    def __init__(
        self,
        model: LLMLike,
        *,
        variant: Variant = "select",
        scope: MessageScope = "latest",
        on_error: OnError = "keep",
        name: str = "S2AMiddleware",
    ) -> None:
        super().__init__(name)
        self.s2a_messages = S2AMessages(
            model=model, variant=variant, scope=scope, on_error=on_error
        )

    @override
    def before_agent(
        self, state: S2AState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        said = self._unread(state)
        return self._update(said, self.s2a_messages.invoke(said)) if said else None

    @override
    async def abefore_agent(
        self, state: S2AState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        said = self._unread(state)
        return (
            self._update(said, await self.s2a_messages.ainvoke(said)) if said else None
        )

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        texts = self._texts(request.state)
        return (
            request.override(messages=_replaced(request.messages, texts))
            if texts
            else request
        )

    def _unread(self, state: S2AState) -> list[AnyMessage]:
        """The messages, where the user's last one has not been cleared yet; it has when a run is resumed."""
        asked = _asked(state["messages"])
        return (
            [] if asked is None or asked.id in self._texts(state) else state["messages"]
        )

    def _update(
        self, said: Sequence[BaseMessage], cleared: Sequence[BaseMessage]
    ) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for old, new in zip(said, cleared, strict=True):
            if new is not old:
                text = None if new.content == old.content else str(new.text).strip()
                found[str(old.id)] = {
                    "text": text,
                    "record": new.response_metadata[RECORD_KEY],
                }
        asked = _asked(said)
        found.setdefault(str(asked.id if asked else None), {"text": None, "record": {}})
        return {"denoised_messages": {self._name: found}}

    def _texts(self, state: Mapping[str, Any]) -> Mapping[str, dict[str, Any]]:
        found: ClearedTexts = state.get("denoised_messages") or {}
        return found.get(self._name, {})


def _asked(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    return next(
        (
            m
            for m in reversed(messages)
            if isinstance(m, HumanMessage) and m.text.strip()
        ),
        None,
    )


def _replaced(
    messages: Sequence[AnyMessage], texts: Mapping[str, dict[str, Any]]
) -> list[Any]:
    out: list[BaseMessage] = []
    for message in messages:
        found = texts.get(message.id) if message.id else None
        if found and found["text"]:
            out.append(replace_message_text(message, found["text"], found["record"]))
        else:
            out.append(
                record_on_message(message, found["record"])
                if found and found["record"]
                else message
            )
    return out
