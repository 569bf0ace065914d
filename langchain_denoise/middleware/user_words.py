"""`S2AMiddleware`: the model reads the user's words without opinion; the conversation keeps them as they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime
from typing_extensions import override

from denoise_core import DenoiseResult, InputError
from denoise_core.s2a import S2ADenoiser
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.convert.history import Scope, Turn, unchanged_record, with_record, with_text
from langchain_denoise.likes import LLMLike
from langchain_denoise.models.chat_llm import as_llm

Cleared = dict[str, dict[str, dict[str, Any]]]


def _merge(old: Cleared | None, new: Cleared | None) -> Cleared:
    merged = dict(old or {})
    for name, messages in (new or {}).items():
        merged[name] = {**merged.get(name, {}), **messages}
    return merged


class S2AState(AgentState[Any]):
    """The agent's state with the cleared texts: by middleware, then by message id. Plain JSON."""

    # The reducer comes last: LangGraph looks for it there and nowhere else.
    denoised_messages: NotRequired[Annotated[Cleared, PrivateStateAttr, _merge]]


class S2AMiddleware(AgentMiddleware[S2AState, Any, Any]):
    """System 2 Attention on what the user says, once a turn, before the agent starts.

    The cleared text is kept in the agent's state and put in the message's place whenever the model is called;
    so it costs one call a turn, survives in a checkpoint, and the user still sees what they wrote. ``scope``
    is the user's ``"latest"`` message or the whole ``"history"``. What the model wrote that does not ask the
    user's question, or cannot be read, changes nothing.
    """

    state_schema = S2AState

    def __init__(
        self,
        model: LLMLike,
        *,
        variant: Variant = "select",
        scope: Scope = "latest",
        on_error: OnError = "keep",
        name: str = "S2AMiddleware",
    ) -> None:
        super().__init__()
        for setting, value, choices in (
            ("scope", scope, get_args(Scope)),
            ("on_error", on_error, get_args(OnError)),
        ):
            if value not in choices:
                raise InputError(f"{setting}={value!r}: expected one of {', '.join(choices)}")
        self.denoiser = S2ADenoiser(as_llm(model), variant=variant, on_error=on_error)
        self.scope: Scope = scope
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name

    @override
    def before_agent(self, state: S2AState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        turn = self._turn(state)
        if turn is None:
            return None
        return self._update(turn, self.denoiser.denoise(turn.question, turn.passages))

    @override
    async def abefore_agent(self, state: S2AState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        turn = self._turn(state)
        if turn is None:
            return None
        return self._update(turn, await self.denoiser.adenoise(turn.question, turn.passages))

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._cleared(request))

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(self._cleared(request))

    def _turn(self, state: S2AState) -> Turn | None:
        turn = Turn.of(state["messages"], self.scope, self.denoiser.variant)
        if turn is None:
            return None
        asked = turn.messages[turn.places[-1]]
        return None if asked.id in self._texts(state) else turn  # resumed: this turn's work is done

    def _update(self, turn: Turn, result: DenoiseResult) -> dict[str, Any]:
        texts = turn.texts(result)
        asked = turn.messages[turn.places[-1]]
        found: dict[str, dict[str, Any]] = {
            str(turn.messages[i].id): {"text": text, "record": record} for i, (text, record) in texts.items()
        }
        unchanged = unchanged_record(turn.passages[-1], result)
        found.setdefault(str(asked.id), {"text": None, "record": unchanged})
        return {"denoised_messages": {self._name: found}}

    def _texts(self, state: Mapping[str, Any]) -> Mapping[str, dict[str, Any]]:
        found: Cleared = state.get("denoised_messages") or {}
        return found.get(self._name, {})

    def _cleared(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        texts = self._texts(request.state)
        return request.override(messages=list(_replaced(request.messages, texts))) if texts else request


def _replaced(messages: Sequence[Any], texts: Mapping[str, dict[str, Any]]) -> list[Any]:
    out: list[BaseMessage] = []
    for message in messages:
        found = texts.get(message.id) if message.id else None
        if found and found["text"]:
            message = with_text(message, found["text"], found["record"])
        elif found and found["record"].get("fallback"):
            message = with_record(message, found["record"])
        out.append(message)
    return out
