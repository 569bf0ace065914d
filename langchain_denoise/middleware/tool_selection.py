"""`DenoiseTools`: of many tools those that matter for this turn; each of the others is noise in the prompt too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool
from typing_extensions import override

from denoise_core import InputError
from denoise_core.errors import is_user_error
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.thread_pool import run_in_pool
from langchain_denoise.middleware.base import RequestMiddleware
from langchain_denoise.models.scoring import as_scorer


class DenoiseTools(RequestMiddleware):
    """Shows the model the ``top_n`` tools whose name and description fit the user's last message best.

    Tools named in ``always_include``, those called since that message, and what a provider runs itself stay beside them;
    their order is the agent's. ``scorer`` is whatever `DenoiseCompressor` takes as one; None is the embedded
    default, offline. A scorer that fails leaves all tools there, and says so in the log; mistakes raise. The agent
    can still carry out every tool.
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
        tools: list[BaseTool] = [t for t in request.tools if isinstance(t, BaseTool)]
        query = next(
            (
                str(m.text)
                for m in reversed(request.messages)
                if isinstance(m, HumanMessage)
            ),
            "",
        )
        if len(tools) <= self.top_n or not query.strip():
            return request
        try:
            scores = self.scorer.score(
                query, [f"{t.name}: {t.description}" for t in tools]
            )
            best = sorted(range(len(tools)), key=lambda i: -float(scores[i]))[
                : self.top_n
            ]
        except Exception as error:
            if is_user_error(error):
                raise
            log_fallback(self.name, error, "all tools are shown")
            return request
        stay = (
            {tools[i].name for i in best}
            | self.always_include
            | _called(request.messages)
        )
        chosen = [
            t for t in request.tools if not isinstance(t, BaseTool) or t.name in stay
        ]
        return request.override(tools=chosen)


def _called(messages: Sequence[Any]) -> set[str]:
    """The tools called since the user's last message."""
    names: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage):
            names |= {c["name"] for c in message.tool_calls}
    return names
