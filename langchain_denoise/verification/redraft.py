"""Brings feedback to the model in a chain that has no input for it.

The last model of a chain is the one that writes the answer. For another draft it reads,
after its own prompt, the rejected draft and what is wrong with it. Retrievers, and models
that rewrite the question, see the same input as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
)
from langchain_core.runnables.passthrough import RunnableAssign

from denoise_core.augmenter.drafting import DraftRequest
from denoise_core.augmenter.prompts import REVISE
from langchain_denoise.models.bindings import (
    AnyRunnable,
    is_model,
    without_bindings,
)


def feedback_messages(request: DraftRequest) -> list[AnyMessage]:
    """The rejected draft and what is wrong with it, as messages; [] for the first draft."""
    if not request.rejected_draft:
        return []
    feedback = f"{REVISE}\n{request.feedback}"
    return [AIMessage(request.rejected_draft), HumanMessage(feedback)]


def with_feedback(model: AnyRunnable, feedback: Sequence[AnyMessage]) -> AnyRunnable:
    """The model, which reads the feedback after its prompt."""

    def extend_prompt(prompt: Any) -> list[BaseMessage]:
        messages = [prompt] if isinstance(prompt, str) else prompt
        return [*convert_to_messages(messages), *feedback]

    return RunnableLambda(extend_prompt, name="feedback") | model


def inner_steps(chain: AnyRunnable) -> dict[str, AnyRunnable]:
    """The steps that a chain shows, in their order; {} for any other runnable."""
    if isinstance(chain, RunnableBindingBase):
        return {"bound": chain.bound}
    if isinstance(chain, RunnableSequence):
        return {str(position): step for position, step in enumerate(chain.steps)}
    if isinstance(chain, RunnableParallel):
        return dict(chain.steps__)
    if isinstance(chain, RunnableAssign):
        return {"mapper": chain.mapper}
    return {}


def visible_steps(chain: AnyRunnable) -> Iterator[AnyRunnable]:
    """A chain and, at any depth, the steps that it shows."""
    yield chain
    for step in inner_steps(chain).values():
        yield from visible_steps(step)


def find_model(chain: AnyRunnable) -> AnyRunnable | None:
    """The last model that a chain shows, which writes its answer; None without one.

    What is bound to the model is left out: tools and a form of replies would shape a
    verdict, too.
    """
    model: AnyRunnable | None = None
    for step in visible_steps(chain):
        if is_model(step):
            model = without_bindings(step)
    return model


def change_model(
    chain: AnyRunnable, change: Callable[[AnyRunnable], AnyRunnable]
) -> AnyRunnable | None:
    """The chain with its last model changed; None if it shows no model."""
    if is_model(chain):
        return change(chain)
    steps = inner_steps(chain)
    # Last step first: earlier models rewrite the question or route it.
    for name in reversed(list(steps)):
        new_step = change_model(steps[name], change)
        if new_step is not None:
            return _with_step(chain, {**steps, name: new_step}, name)
    return None


def _with_step(chain: Any, steps: dict[str, AnyRunnable], name: str) -> AnyRunnable:
    if isinstance(chain, RunnableSequence):
        return RunnableSequence(*steps.values(), name=chain.name)
    if isinstance(chain, RunnableParallel):
        return chain.model_copy(update={"steps__": steps})
    changed_chain: AnyRunnable = chain.model_copy(update={name: steps[name]})
    return changed_chain
