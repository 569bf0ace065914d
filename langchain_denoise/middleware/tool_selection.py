"""`DenoiseTools`: shows the model only the tools that matter for this turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from typing_extensions import override

from denoise_core import InputError
from denoise_core.errors import is_user_error
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool
from langchain_denoise.convert.messages import current_turn, last_user_text
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.models.scoring import as_scorer


class DenoiseTools(RequestMiddleware):
    """Shows the model the ``top_n`` tools that fit the user's last message best.

    Scored are name and description. Also shown are tools named in ``always_include``,
    those called since that message, and those that a provider runs itself; the order is
    the agent's. ``scorer`` is any scorer of `DenoiseCompressor`; None is the embedded
    default, offline. If a scorer fails, all tools are shown and the log says so; user
    errors raise. The agent can still run every tool.
    """

    def __init__(
        self,
        scorer: Any = None,
        *,
        top_n: int = 8,
        always_include: Sequence[str] = (),
        name: str = "DenoiseTools",
    ) -> None:
        super().__init__(name)
        if top_n < 1:
            raise InputError(f"top_n={top_n}: expected 1 or more")
        if isinstance(always_include, str):
            raise InputError(
                f"always_include={always_include!r}: expected a list of tool names"
            )
        if scorer is None:
            # Imported here: a scorer of yours needs no embedded weights.
            from denoise_core.embedded import DefaultScorer

            scorer = DefaultScorer()
        self.scorer = as_scorer(scorer)
        self.top_n = top_n
        self.always_include = frozenset(always_include)

    @override
    async def achange_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return await run_in_pool(self.change_request, request)

    @override
    def change_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        tools = [tool for tool in request.tools if isinstance(tool, BaseTool)]
        query = last_user_text(request.messages)
        if len(tools) <= self.top_n or not query.strip():
            return request
        descriptions = [f"{tool.name}: {tool.description}" for tool in tools]
        try:
            scores = [float(score) for score in self.scorer.score(query, descriptions)]
            ranked_tools = sorted(zip(scores, tools, strict=True), key=_negative_score)
        except Exception as error:
            if is_user_error(error):
                raise
            log_fallback(self.name, error, "all tools are shown")
            return request
        shown_names = {tool.name for _, tool in ranked_tools[: self.top_n]}
        shown_names |= self.always_include | _called_tools(request.messages)
        shown_tools = []
        for tool in request.tools:
            if not isinstance(tool, BaseTool) or tool.name in shown_names:
                shown_tools.append(tool)
        return request.override(tools=shown_tools)


def _negative_score(scored_tool: tuple[float, BaseTool]) -> float:
    return -scored_tool[0]


def _called_tools(messages: Sequence[Any]) -> set[str]:
    """The tools called since the user's last message."""
    names: set[str] = set()
    for message in current_turn(messages):
        if isinstance(message, AIMessage):
            names.update(call["name"] for call in message.tool_calls)
    return names
