"""`Checked`: engines, chats and agents whose answers are verified."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import LLM
from llama_index.core.workflow import Workflow

from denoise_core import Budget, InputError
from denoise_core._frameworks import check_names
from denoise_core.augmenter import Augmenter, LoopLimits
from llamaindex_denoise.agents.chat import CheckedChatEngine
from llamaindex_denoise.engines.query import CheckedQueryEngine
from llamaindex_denoise.models.llm import LlamaLLM, find_model

WorkflowT = TypeVar("WorkflowT", bound=Workflow)

_SHARED_SETTINGS = ("judge", "budget", "limits", "augmenter")
_ENGINE_SETTINGS = ("evidence", "streaming", "on_error")


@overload
def Checked(component: BaseQueryEngine, **settings: Any) -> CheckedQueryEngine: ...
@overload
def Checked(component: BaseChatEngine, **settings: Any) -> CheckedChatEngine: ...
@overload
def Checked(component: WorkflowT, **settings: Any) -> WorkflowT: ...
def Checked(  # noqa: N802  used like a class
    component: Any,
    *,
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    augmenter: Augmenter | None = None,
    **settings: Any,
) -> Any:
    """Return a copy of ``component`` whose answers are judged and redrafted.

    The verdict is in ``response.metadata["denoise"]`` of every kind of response, and in
    an agent's stream as a `VerificationEvent`.

    Args:
        component: A query engine, a chat engine of any mode, a FunctionAgent,
            ReActAgent, CodeActAgent or AgentWorkflow. It is not changed.
        judge: A judge of `denoise_core`, a LlamaIndex model (which then quotes)
            or a function. None is the model that ``component`` answers with,
            ``"off"`` is nobody.
        budget: Bounds one run.
        limits: Bounds the loop, and says what is sent when an answer fails.
        augmenter: Your own loop, instead of the settings above.
        **settings: Of engines and chats ``on_error`` and ``evidence``: a function from the
            component's response to nodes or texts, where its ``source_nodes`` do not
            have what the answer was written from. Of a query engine also ``streaming``.
            Of an agent ``no_evidence``: names of tools whose output is
            no evidence (a notebook, a planner, a tool that calls a model).

    Raises:
        InputError: ``component`` is of another kind, or a setting does not apply.
    """
    loop_augmenter = _choose_augmenter(
        augmenter, judge=judge, budget=budget, limits=limits
    )
    model = find_model(component)
    if model is not None:
        loop_augmenter = loop_augmenter.with_judge_model(LlamaLLM(model))
    if isinstance(component, BaseQueryEngine):
        _check_use(component, CheckedQueryEngine, settings, _ENGINE_SETTINGS)
        return CheckedQueryEngine(component, loop_augmenter, **settings)
    if isinstance(component, BaseChatEngine):
        _check_use(component, CheckedChatEngine, settings, ("evidence", "on_error"))
        return CheckedChatEngine(component, loop_augmenter, **settings)
    # Imported late, since LlamaIndex's agents are slow to import.
    from llamaindex_denoise.agents.checked import FinalOutputChecks, checked_workflow

    if isinstance(component, Workflow):
        _check_use(component, FinalOutputChecks, settings, ("no_evidence",))
        return checked_workflow(component, loop_augmenter, **settings)
    raise InputError(
        "expected a llama_index query engine, chat engine, agent or AgentWorkflow, got "
        f"{type(component).__name__}; write index.as_query_engine(llm=...) or "
        "index.as_chat_engine(llm=...)"
    )


def _choose_augmenter(augmenter: Augmenter | None, **loop_settings: Any) -> Augmenter:
    """The user's loop, or one with the settings."""
    if augmenter is None:
        if isinstance(loop_settings["judge"], LLM):  # the core makes a judge of a model
            loop_settings["judge"] = LlamaLLM(loop_settings["judge"])
        return Augmenter(**loop_settings)
    if not isinstance(augmenter, Augmenter):
        raise InputError(
            f"augmenter: expected a denoise_core Augmenter, got {type(augmenter).__name__}"
        )
    for name, value in loop_settings.items():
        if value is not None:
            raise InputError(f"{name}: give it to the augmenter: Augmenter({name}=...)")
    return augmenter


def _check_use(
    component: Any,
    checked_class: type,
    settings: dict[str, Any],
    applicable: tuple[str, ...],
) -> None:
    """Raise for a component that is checked already, or a setting of another kind."""
    kind = type(component).__name__
    if isinstance(component, checked_class):
        raise InputError(f"{kind}: its answers are checked already")
    check_names(f"Checked({kind})", settings, _SHARED_SETTINGS + applicable)
