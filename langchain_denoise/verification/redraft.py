"""Brings feedback to the model in a chain that has no input for it.

For another draft the model that writes the answer reads, after its own prompt, the
rejected draft and what is wrong with it. Retrievers, and models that rewrite the question
or write something else than the answer, see the same input as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from langchain_denoise.convert.chain_values import ANSWER_KEYS, ValueSelector
from langchain_denoise.models.bindings import AnyRunnable, bare_model


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
    if isinstance(chain, RunnableAssign):
        return {"mapper": chain.mapper}
    return value_steps(chain)


def value_steps(chain: AnyRunnable) -> dict[str, AnyRunnable]:
    """The steps that make values of an output by its keys; {} if the chain shows none."""
    values = chain.mapper if isinstance(chain, RunnableAssign) else chain
    return dict(values.steps__) if isinstance(values, RunnableParallel) else {}


def has_step_of(chain: AnyRunnable, *modules: str) -> bool:
    """Whether the class of a step that a chain shows is from one of these modules."""
    for parent in type(chain).__mro__:
        if parent.__module__.startswith(modules):
            return True
    return any(has_step_of(step, *modules) for step in inner_steps(chain).values())


def find_model(chain: AnyRunnable, answer: ValueSelector = None) -> AnyRunnable | None:
    """The model that `change_model` changes; None if the chain shows none.

    What is bound to the model is left out: tools and a form of replies would shape a
    verdict, too.
    """
    models: list[AnyRunnable] = []
    change_model(chain, models.append, answer)
    return bare_model(models[0]) if models else None


def change_model(
    chain: AnyRunnable,
    change: Callable[[AnyRunnable], AnyRunnable | None],
    answer: ValueSelector = None,
) -> AnyRunnable | None:
    """The chain with the model changed that writes the answer; None if it shows none.

    The last one, but of an output with several values the one under the key ``answer``.
    Where ``change`` returns None, the next one is tried.
    """
    if bare_model(chain):
        return change(chain)
    steps = inner_steps(chain)
    answer_keys = (answer,) if isinstance(answer, str) else ANSWER_KEYS
    # Last step first: earlier models rewrite the question or route it.
    names = list(reversed(steps))
    if isinstance(chain, RunnableParallel):
        names.sort(key=lambda name: name not in answer_keys)
    other_steps = [
        name
        for name, step in steps.items()
        if value_steps(step).keys().isdisjoint(answer_keys)
    ]
    if len(other_steps) < len(names):
        # What `assign` adds to the answer is no part of it.
        names.sort(
            key=lambda name: (
                name in other_steps and isinstance(steps[name], RunnableAssign)
            )
        )
    for name in names:
        new_step = change_model(steps[name], change, answer)
        if new_step is not None:
            return _with_step(chain, {**steps, name: new_step}, name)
    return None


def _with_step(chain: Any, steps: dict[str, AnyRunnable], name: str) -> AnyRunnable:
    if isinstance(chain, RunnableSequence):
        return RunnableSequence(*steps.values(), name=chain.name)
    is_map = isinstance(chain, RunnableParallel)
    update = {"steps__": steps} if is_map else {name: steps[name]}
    changed_chain: AnyRunnable = chain.model_copy(update=update)
    return changed_chain
