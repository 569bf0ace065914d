"""`UtilityEvaluator`: a judge as a LlamaIndex evaluator; unknown is never a pass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.llms import LLM

from denoise_core import InputError, Passage, arun, run
from denoise_core.augmenter import (
    AnswerVerdict,
    TemplateFeedback,
    Utility,
    WorkingMemory,
)
from denoise_core.augmenter.utility import as_utility
from denoise_core.errors import format_error, is_user_error
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.support.judging import Judge
from llamaindex_denoise.engines.base import WithoutPrompts
from llamaindex_denoise.models.llm import LlamaLLM
from llamaindex_denoise.nodes.convert import to_passages


class UtilityEvaluator(WithoutPrompts, BaseEvaluator):
    """A judge or utility for `RetryQueryEngine`, `BatchEvalRunner` and the like.

    In its results ``score`` is 0 to 1 and ``feedback`` is what the loop would tell the
    model. ``passing`` is None and ``invalid_result`` True if the utility cannot decide:
    no contexts, an abstaining answer, a judge that failed.

    Args:
        judge: A judge or a utility of the core, or a LlamaIndex model, which then quotes.

    Raises:
        InputError: There is no judge.
    """

    def __init__(self, judge: Judge | Utility | LLM) -> None:
        if judge is None:
            raise InputError(
                "judge: expected a judge such as Groundedness() or LLMJudge(llm)"
            )
        core_judge: Any = judge
        if isinstance(judge, LLM):
            core_judge = LlamaLLM(judge)  # the core makes a judge of a model
        self.utility = as_utility(core_judge)

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate an answer without starting an event loop.

        Raises:
            InputError: ``query`` or ``response`` is missing.
        """
        flow = self._flow(query, response, _context_passages(contexts))
        return run(flow)[0]

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        sleep_time_in_seconds: int = 0,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate an answer, as `evaluate` does."""
        await asyncio.sleep(sleep_time_in_seconds)  # LlamaIndex's runner spaces calls
        flow = self._flow(query, response, _context_passages(contexts))
        result, _ = await arun(flow)
        return result

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Evaluate a response; its sources' metadata, such as a title, is evidence."""
        flow = self._flow(query, *_response_parts(response))
        return run(flow)[0]

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Evaluate a response, as `evaluate_response` does."""
        flow = self._flow(query, *_response_parts(response))
        result, _ = await arun(flow)
        return result

    def _flow(
        self, query: str | None, response: str | None, passages: tuple[Passage, ...]
    ) -> Flow[EvaluationResult]:
        """A judge that fails gives "unknown"; a mistake of the user raises."""
        if query is None or response is None:
            missing = "query" if query is None else "response"
            raise InputError(
                f"{missing} must be given: an evaluation needs query, response and "
                "contexts"
            )
        memory = WorkingMemory(query, evidence=passages)
        feedback_text = ""
        reason = "there is nothing to check the answer against"
        verdict = AnswerVerdict(kind="empty_evidence", reason=reason)
        try:
            if any(passage.text.strip() for passage in passages):
                verdict = yield from self.utility.assess(memory, response)
                if not verdict.passed:
                    feedback_text = yield from TemplateFeedback().write(
                        memory, response, verdict
                    )
        except Exception as error:
            if is_user_error(error):
                raise
            log_fallback("evaluation", error, "nothing is known of the answer")
            feedback_text = ""
            verdict = AnswerVerdict(kind="judge_error", reason=format_error(error))
        is_unknown = verdict.outcome == "unknown"
        reasons = "; ".join(verdict.reasons)
        return EvaluationResult(
            query=query,
            contexts=[passage.text for passage in passages],
            response=response,
            passing=None if is_unknown else verdict.passed,
            feedback=feedback_text or reasons or "the answer holds",
            score=None if is_unknown else verdict.score,
            invalid_result=is_unknown,
            invalid_reason=reasons if is_unknown else None,
        )


def _response_parts(
    response: Response | None,
) -> tuple[str | None, tuple[Passage, ...]]:
    if response is None:
        return None, ()
    return response.response, to_passages(response.source_nodes, include_captions=True)


def _context_passages(contexts: Sequence[str] | None) -> tuple[Passage, ...]:
    numbered_texts = enumerate(contexts or (), 1)
    return tuple(Passage(text, f"context-{number}") for number, text in numbered_texts)
