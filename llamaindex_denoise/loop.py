"""The loop of a front door: an `Augmenter` as it is given, or one made of a judge, a budget and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.llms import LLM

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, LoopLimits
from llamaindex_denoise.models.llm import LlamaLLM


def loop_of(
    augmenter: Augmenter | None = None,
    *,
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    unsupported: Literal["send", "abstain"] | None = None,
) -> Augmenter:
    """``augmenter``, or one with this ``judge``: whatever judges, a LlamaIndex model or evaluator too.

    ``unsupported`` is that of `LoopLimits`. Raises `InputError` for an augmenter and settings of another.
    """
    given = {"judge": judge, "budget": budget, "limits": limits, "unsupported": unsupported}
    named = [name for name, value in given.items() if value is not None]
    if augmenter is not None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(f"augmenter: expected a denoise_core Augmenter, got {type(augmenter).__name__}")
        if named:
            raise InputError(f"{', '.join(named)}: say it to the augmenter: Augmenter({named[0]}=...)")
        return augmenter
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget: expected a Budget such as Budget(calls=8), got {type(budget).__name__}")
    if limits is not None and not isinstance(limits, LoopLimits):
        raise InputError(f"limits: expected LoopLimits(attempts=2) or the like, got {type(limits).__name__}")
    if unsupported is not None:
        limits = replace(limits or LoopLimits(), unsupported=unsupported)
    return Augmenter(judge=judge_of(judge), budget=budget, limits=limits)


def judge_of(judge: Any) -> Any:
    """What the core takes for a judge, of LlamaIndex's: a model judges by its quotes, an evaluator as it is."""
    if isinstance(judge, LLM):
        return LlamaLLM(judge)
    if isinstance(judge, BaseEvaluator):
        from llamaindex_denoise.evaluator import EvaluatorUtility

        return EvaluatorUtility(judge)
    return judge
