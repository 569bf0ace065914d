"""What the middleware share: a name, and a change of each request to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from typing_extensions import override

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class NamedMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware with a name, so that one agent may have two of a kind."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name


class RequestMiddleware(NamedMiddleware):
    """Middleware that changes the request to the model."""

    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request for the model."""
        raise NotImplementedError

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
