"""What the middleware share: what the model reads of a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from typing_extensions import override

from langchain_denoise.convert.history import shown_message

AgentRequest: TypeAlias = ModelRequest[Any]
AgentResponse: TypeAlias = ModelResponse[Any]
Handler = Callable[[AgentRequest], AgentResponse]
AsyncHandler = Callable[[AgentRequest], Awaitable[AgentResponse]]


class ViewMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware that stores in a message what the model reads of it.

    The agent's state keeps the message as it was.
    """

    def change_request(self, request: AgentRequest) -> AgentRequest:
        """The request with each message as the model reads it."""
        messages: list[Any] = [shown_message(message) for message in request.messages]
        return request.override(messages=messages)

    @override
    def wrap_model_call(self, request: AgentRequest, handler: Handler) -> AgentResponse:
        return handler(self.change_request(request))

    @override
    async def awrap_model_call(
        self, request: AgentRequest, handler: AsyncHandler
    ) -> AgentResponse:
        return await handler(self.change_request(request))
