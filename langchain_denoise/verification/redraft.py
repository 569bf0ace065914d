"""Where feedback goes in a chain that has no place for it: to the model that writes, and to no search.

The last model of a chain is the one that writes the answer. Asked again, it reads after its own prompt the draft
that did not hold and what is wrong with it; retrievers, and models that rewrite the question, see what they saw.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableParallel,
    RunnableSequence,
)
from langchain_core.runnables.passthrough import RunnableAssign
from typing_extensions import override

from denoise_core.augmenter.drafting import DraftRequest
from denoise_core.augmenter.prompts import REVISE
from langchain_denoise.models.bindings import is_greedy, is_model


@dataclass(frozen=True, slots=True)
class RedraftRequest:
    """What a model is told when it writes again. ``anew``: a model set to temperature 0 samples this time."""

    rejected: str
    feedback: str
    resample: bool

    @staticmethod
    def from_request(request: DraftRequest) -> RedraftRequest | None:
        return (
            RedraftRequest(
                request.rejected_draft, request.feedback, request.should_resample
            )
            if request.rejected_draft
            else None
        )

    @property
    def feedback_messages(self) -> list[Any]:
        return [AIMessage(self.rejected), HumanMessage(f"{REVISE}\n{self.feedback}")]


current_redraft: ContextVar[RedraftRequest | None] = ContextVar(
    "denoise_draft_again", default=None
)


class RedraftingModel(RunnableBindingBase[Any, Any]):
    """A model that reads, while a draft is written again, what was wrong with the last one."""

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        return super().invoke(_told(input), config, **self._sampled(kwargs))

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        return await super().ainvoke(_told(input), config, **self._sampled(kwargs))

    @override
    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        yield from super().stream(_told(input), config, **self._sampled(kwargs))

    @override
    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        async for chunk in super().astream(
            _told(input), config, **self._sampled(kwargs)
        ):
            yield chunk

    @override
    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        whole = _joined(list(input))
        yield from self.stream(whole, config, **kwargs)

    @override
    async def atransform(
        self,
        input: AsyncIterator[Any],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        whole = _joined([part async for part in input])
        async for chunk in self.astream(whole, config, **kwargs):
            yield chunk

    def _sampled(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        told = current_redraft.get()
        return (
            {"temperature": 0.7, **kwargs}
            if told and told.resample and is_greedy(self.bound)
            else kwargs
        )


def insert_redrafting(chain: Runnable[Any, Any]) -> Runnable[Any, Any] | None:
    """``chain`` with its last model made to hear feedback; None when no model can be seen in it."""
    if is_model(chain):
        return RedraftingModel(bound=chain)
    if isinstance(chain, RunnableSequence):
        steps = list(chain.steps)
        for place in reversed(range(len(steps))):
            if (new := insert_redrafting(steps[place])) is not None:
                steps[place] = new
                return RunnableSequence(*steps, name=chain.name)
    elif isinstance(chain, RunnableAssign):
        if isinstance(new := insert_redrafting(chain.mapper), RunnableParallel):
            return chain.model_copy(update={"mapper": new})
    elif isinstance(chain, RunnableParallel):
        for key, step in reversed(list(chain.steps__.items())):
            if (new := insert_redrafting(step)) is not None:
                return chain.model_copy(update={"steps__": {**chain.steps__, key: new}})
    elif (
        isinstance(chain, RunnableBindingBase)
        and (new := insert_redrafting(chain.bound)) is not None
    ):
        return chain.model_copy(update={"bound": new})
    return None


def _told(input: Any) -> Any:
    told = current_redraft.get()
    if told is None:
        return input
    messages = input.to_messages() if isinstance(input, PromptValue) else None
    if messages is None:
        messages = convert_to_messages([input] if isinstance(input, str) else input)
    return [*messages, *told.feedback_messages]


def _joined(parts: list[Any]) -> Any:
    whole = parts[0] if parts else ""
    for part in parts[1:]:
        whole = whole + part
    return whole
