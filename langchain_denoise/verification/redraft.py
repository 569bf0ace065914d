"""Brings feedback to the model in a chain that has no input for it.

The last model of a chain is the one that writes the answer. For another draft it reads,
after its own prompt, the rejected draft and what is wrong with it. Retrievers, and models
that rewrite the question, see the same input as before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, cast

from langchain_core.messages import AIMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
)
from langchain_core.runnables.passthrough import RunnableAssign
from typing_extensions import override

from denoise_core.augmenter.drafting import DraftRequest
from denoise_core.augmenter.prompts import REVISE
from langchain_denoise.models.bindings import (
    AnyRunnable,
    is_greedy,
    is_model,
    without_bindings,
)


@dataclass(frozen=True, slots=True)
class RedraftRequest:
    """What a model reads when it writes again.

    ``resample``: a model set to temperature 0 samples this time.
    """

    rejected: str
    feedback: str
    resample: bool

    @staticmethod
    def from_request(request: DraftRequest) -> RedraftRequest | None:
        """The request as one for another draft; None for the first draft."""
        if not request.rejected_draft:
            return None
        return RedraftRequest(
            request.rejected_draft, request.feedback, request.should_resample
        )

    @property
    def feedback_messages(self) -> list[Any]:
        """The rejected draft and the feedback, as messages."""
        return [AIMessage(self.rejected), HumanMessage(f"{REVISE}\n{self.feedback}")]


current_redraft: ContextVar[RedraftRequest | None] = ContextVar(
    "denoise_draft_again", default=None
)


class RedraftingModel(RunnableBindingBase[Any, Any]):
    """A model that reads the feedback of `current_redraft` after its prompt."""

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        return super().invoke(_add_feedback(input), config, **self._sampling(kwargs))

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        prompt = _add_feedback(input)
        return await super().ainvoke(prompt, config, **self._sampling(kwargs))

    @override
    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        prompt = _add_feedback(input)
        yield from super().stream(prompt, config, **self._sampling(kwargs))

    @override
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        prompt = _add_feedback(input)
        async for chunk in super().astream(prompt, config, **self._sampling(kwargs)):
            yield chunk

    @override
    def transform(
        self,
        input: Iterator[Any],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        yield from self.stream(_join_chunks(list(input)), config, **kwargs)

    @override
    async def atransform(
        self,
        input: AsyncIterator[Any],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        prompt = _join_chunks([chunk async for chunk in input])
        async for chunk in self.astream(prompt, config, **kwargs):
            yield chunk

    def _sampling(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        redraft = current_redraft.get()
        if redraft and redraft.resample and is_greedy(self.bound):
            return {"temperature": 0.7, **kwargs}
        return kwargs


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


def find_model(chain: AnyRunnable) -> AnyRunnable | None:
    """The last model that a chain shows, which writes its answer; None without one.

    A function shows what it closes over, not the globals of its module: they may be for
    anything. What is bound to the model is left out: tools and a form of replies would
    shape a verdict, too.
    """
    open_steps = [chain]
    seen_ids: set[int] = set()
    while open_steps:
        step = open_steps.pop()
        if is_model(step):
            return cast("AnyRunnable", without_bindings(step))
        if id(step) in seen_ids:
            continue  # a function that calls itself
        seen_ids.add(id(step))
        open_steps += inner_steps(step).values()
        if isinstance(step, RunnableLambda):
            open_steps += _closed_over(step)
    return None


def _closed_over(step: RunnableLambda[Any, Any]) -> list[AnyRunnable]:
    """The runnables in a function's closure; `RunnableLambda.deps` would read its file."""
    function = getattr(step, "func", None) or step.afunc
    values = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            continue  # its variable is not assigned yet
    return [value for value in values if isinstance(value, Runnable)]


def insert_redrafting(chain: AnyRunnable) -> AnyRunnable | None:
    """The chain with its last model as a `RedraftingModel`; None if it shows no model."""
    if is_model(chain):
        return RedraftingModel(bound=chain)
    steps = inner_steps(chain)
    # Last step first: earlier models rewrite the question or route it.
    for name in reversed(list(steps)):
        new_step = insert_redrafting(steps[name])
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


def _add_feedback(prompt: Any) -> Any:
    redraft = current_redraft.get()
    if redraft is None:
        return prompt
    if isinstance(prompt, PromptValue):
        messages = prompt.to_messages()
    else:
        messages = convert_to_messages([prompt] if isinstance(prompt, str) else prompt)
    return [*messages, *redraft.feedback_messages]


def _join_chunks(chunks: list[Any]) -> Any:
    return reduce(add, chunks) if chunks else ""
