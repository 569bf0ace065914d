"""`Checked`: the one front door to answers that are checked, around what you have."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Workflow

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, LoopLimits
from llamaindex_denoise.agents.chat import CheckedChatEngine
from llamaindex_denoise.engines.augmented import CheckedQueryEngine, VerifiedEngine
from llamaindex_denoise.verify import UnsupportedPolicy, build_augmenter

A = TypeVar("A", bound=Workflow)


@overload
def Checked(what: BaseQueryEngine, **settings: Any) -> CheckedQueryEngine: ...
@overload
def Checked(what: BaseChatEngine, **settings: Any) -> CheckedChatEngine: ...
@overload
def Checked(what: QueryEngineTool, **settings: Any) -> QueryEngineTool: ...
@overload
def Checked(what: A, **settings: Any) -> A: ...
def Checked(
    what: Any,
    *,
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    unsupported: UnsupportedPolicy | None = None,
    augmenter: Augmenter | None = None,
    **settings: Any,
) -> Any:
    """A copy of ``what`` whose answers are judged and asked for again before they are sent.

    ``what`` is a query engine, a chat engine of any mode, a FunctionAgent, ReActAgent, CodeActAgent, AgentWorkflow
    or a `QueryEngineTool` (which then tells an agent the verdict). It stays as it is.

    ``judge`` is whatever judges: a judge of `denoise_core`, a LlamaIndex model (which then quotes), a
    function; None is code alone, which says what differs. ``budget`` and ``limits`` bound a run,
    ``unsupported`` says what happens to an answer that fails: "send" or "abstain". ``augmenter`` is a loop of
    yours instead. An agent takes ``no_evidence``: names of tools whose words are no evidence (a notebook, a
    planner, a tool that asks a model). ``settings`` of a query engine are ``streaming``
    and ``on_error``, of a chat engine ``on_error``.

    The verdict stands in ``response.metadata["denoise"]`` of every kind of response, of an agent also in its
    stream as a `VerificationEvent`. Raises `InputError` for anything else, and for a setting that nothing reads.
    """
    loop = build_augmenter(judge, budget, limits, unsupported, augmenter=augmenter)
    name = type(what).__name__
    if isinstance(what, (BaseQueryEngine, BaseChatEngine)):
        if isinstance(what, (VerifiedEngine, CheckedChatEngine)):
            raise InputError(f"{name}: its answers are checked already")
        if isinstance(what, BaseQueryEngine):
            return CheckedQueryEngine(
                what, loop, **_only(settings, name, "streaming", "on_error")
            )
        return CheckedChatEngine(what, loop, **_only(settings, name, "on_error"))
    from llamaindex_denoise.agents.checked import (  # slow to import
        CheckedTool,
        FinalOutputChecks,
        checked_workflow,
    )

    if isinstance(what, (CheckedTool, FinalOutputChecks)):
        raise InputError(f"{name}: its answers are checked already")
    if isinstance(what, QueryEngineTool):
        engine = what.query_engine
        if not isinstance(engine, VerifiedEngine):
            engine = CheckedQueryEngine(
                engine, loop, **_only(settings, name, "streaming", "on_error")
            )
        return CheckedTool(engine, what.metadata, what._resolve_input_errors)
    if isinstance(what, Workflow):
        return checked_workflow(what, loop, **_only(settings, name, "no_evidence"))
    raise InputError(
        f"expected a llama_index query engine, chat engine, agent or AgentWorkflow, got {name}; an index gives "
        "one with index.as_query_engine(llm=...) or index.as_chat_engine(llm=...)"
    )


def _only(settings: dict[str, Any], of: str, *known: str) -> dict[str, Any]:
    if unknown := [n for n in settings if n not in known]:
        also = ", ".join(
            ("judge", "budget", "limits", "unsupported", "augmenter", *known)
        )
        raise InputError(
            f"Checked({of}): no setting {', '.join(unknown)}; there are {also}"
        )
    return settings
