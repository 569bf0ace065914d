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
    if isinstance(chain, RunnableParallel):
        return dict(chain.steps__)
    if isinstance(chain, RunnableAssign):
        return {"mapper": chain.mapper}
    return {}


def has_step_of(chain: AnyRunnable, *modules: str) -> bool:
    """Whether the class of a step that a chain shows is from one of these modules."""
    for parent in type(chain).__mro__:
        if parent.__module__.startswith(modules):
            return True
    return any(has_step_of(step, *modules) for step in inner_steps(chain).values())


def answer_keys(answer: ValueSelector) -> Sequence[str]:
    """The keys that an output's answer may have; () if a function finds it."""
    if callable(answer):
        return ()
    return ANSWER_KEYS if answer is None else (answer,)


def answer_step(chain: AnyRunnable, key: str) -> str | None:
    """The name of the step that puts a value under this key of a chain's output.

    None if the chain does not show one, as before a function that makes another output.
    """
    steps = inner_steps(chain)
    if isinstance(chain, RunnableParallel):
        return key if key in steps else None
    for name, step in reversed(steps.items()):
        if answer_step(step, key) is not None:
            return name
        # What `assign` adds leaves the values before it in the output.
        if not isinstance(step, RunnableAssign):
            break
    return None


def find_model(
    chain: AnyRunnable, keys: Sequence[str] = ANSWER_KEYS
) -> AnyRunnable | None:
    """The model that `change_model` changes; None if the chain shows none.

    What is bound to the model is left out: tools and a form of replies would shape a
    verdict, too.
    """
    models: list[AnyRunnable] = []

    def note_model(model: AnyRunnable) -> AnyRunnable:
        models.append(bare_model(model))
        return model

    change_model(chain, note_model, keys)
    return models[0] if models else None


def change_model(
    chain: AnyRunnable,
    change: Callable[[AnyRunnable], AnyRunnable],
    keys: Sequence[str] = ANSWER_KEYS,
) -> AnyRunnable | None:
    """The chain with the model changed that writes the answer; None if it shows none.

    It is the one that writes the value under the first of these keys, or else the last.
    """
    if bare_model(chain):
        return change(chain)
    steps = inner_steps(chain)
    shown_names = [answer_step(chain, key) for key in keys]
    answer_names = [name for name in shown_names if name][:1]
    # Last step first: earlier models rewrite the question or route it.
    for name in answer_names + list(reversed(steps)):
        # The values of any other step are not in the output.
        step_keys = keys if name in answer_names else ()
        new_step = change_model(steps[name], change, step_keys)
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
