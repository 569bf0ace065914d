"""What the middleware share: what the model reads of a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from typing_extensions import override

from langchain_denoise.convert.history import shown_message

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class ViewMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware that stores in a message what the model reads of it.

    The agent's state keeps the message as it was.
    """

    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with each message as the model reads it."""
        messages: list[Any] = [shown_message(message) for message in request.messages]
        return request.override(messages=messages)

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any]:
        return handler(self.change_request(request))

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ModelResponse[Any]:
        return await handler(self.change_request(request))
