"""A judge where LlamaIndex takes an evaluator. What is unknown is never a pass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult

from denoise_core import LLM, Budget, InputError, Passage, arun, run
from denoise_core.augmenter import (
    AnswerVerdict,
    Feedback,
    TemplateFeedback,
    Utility,
    WorkingMemory,
)
from denoise_core.augmenter.utility import as_utility
from denoise_core.errors import format_error, is_user_error
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.judging import Judge
from llamaindex_denoise.engines.base import NestedPrompts
from llamaindex_denoise.nodes.convert import to_passages


class UtilityEvaluator(NestedPrompts, BaseEvaluator):
    """A judge or utility of the loop where LlamaIndex takes an evaluator: `RetryQueryEngine`, `BatchEvalRunner`.

    ``passing`` is None and ``invalid_result`` True when the utility cannot say (no contexts, an answer that
    abstains, a judge that fails): never a pass. ``score`` lies in 0..1; ``feedback`` is what the loop would
    tell the model. ``llm`` serves a utility that asks a model and names none; ``budget`` bounds one evaluation.
    """

    def __init__(
        self,
        judge: Judge | Utility,
        *,
        llm: LLM | None = None,
        feedback: Feedback | None = None,
        budget: Budget | None = None,
    ) -> None:
        if judge is None:
            raise InputError(
                "judge: expected what judges, such as Groundedness() or LLMJudge(llm)"
            )
        self.utility = as_utility(judge)
        self.feedback = feedback or TemplateFeedback()
        self.run_settings: dict[str, Any] = {"llm": llm, "budget": budget}

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Starts no event loop. Raises `InputError` when query or response is missing, as does `aevaluate`."""
        return run(
            self._flow(query, response, _passages(contexts)), **self.run_settings
        )[0]

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        sleep_time_in_seconds: int = 0,
        **kwargs: Any,
    ) -> EvaluationResult:
        await asyncio.sleep(
            sleep_time_in_seconds
        )  # LlamaIndex's runner spaces its calls this way
        return (
            await arun(
                self._flow(query, response, _passages(contexts)), **self.run_settings
            )
        )[0]

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Like the base class's, with the sources' metadata (a title counts as evidence)."""
        return run(self._flow(query, *_read(response)), **self.run_settings)[0]

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        return (await arun(self._flow(query, *_read(response)), **self.run_settings))[0]

    def _flow(
        self, query: str | None, response: str | None, passages: tuple[Passage, ...]
    ) -> Flow[EvaluationResult]:
        """What a judge that failed leaves is unknown; a mistake (`is_user_error`) raises."""
        if query is None or response is None:
            missing = "query" if query is None else "response"
            raise InputError(
                f"{missing} must be given: an evaluation needs query, response and contexts"
            )
        memory, words = WorkingMemory(query, evidence=passages), ""
        nothing = "there is nothing to check the answer against"
        verdict = AnswerVerdict(kind="empty_evidence", reason=nothing)
        try:
            if any(p.text.strip() for p in passages):
                verdict = yield from self.utility.assess(memory, response)
                words = (
                    ""
                    if verdict.passed
                    else (yield from self.feedback.write(memory, response, verdict))
                )
        except Exception as error:
            if is_user_error(error):
                raise
            log_fallback("evaluation", error, "nothing is known of the answer")
            verdict, words = (
                AnswerVerdict(kind="judge_error", reason=format_error(error)),
                "",
            )
        unknown = verdict.outcome == "unknown"
        reasons = "; ".join(verdict.reasons)
        return EvaluationResult(
            query=query,
            contexts=[p.text for p in passages],
            response=response,
            passing=None if unknown else verdict.passed,
            feedback=words or reasons or "the answer holds",
            score=None if unknown else verdict.score,
            invalid_result=unknown,
            invalid_reason=reasons if unknown else None,
        )


def _read(response: Response | None) -> tuple[str | None, tuple[Passage, ...]]:
    if response is None:
        return None, ()
    return response.response, to_passages(response.source_nodes, include_captions=True)


def _passages(contexts: Sequence[str] | None) -> tuple[Passage, ...]:
    return tuple(
        Passage(text, f"context-{i}") for i, text in enumerate(contexts or (), 1)
    )
