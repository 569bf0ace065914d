"""A judge where LlamaIndex takes an evaluator. What is unknown is never a pass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from denoise_core import LLM, Budget, InputError, Passage, arun, run
from denoise_core.augmenter import Feedback, Reason, TemplateFeedback, Utility, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.groundedness import as_utility
from denoise_core.errors import is_mistake, said
from denoise_core.running.effects import Flow
from denoise_core.running.fallbacks import fell_back
from denoise_core.support.judging import Judge
from llamaindex_denoise.nodes.convert import to_passages


class UtilityEvaluator(BaseEvaluator):
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
            raise InputError("judge: expected what judges, such as Groundedness() or LLMJudge(llm)")
        self.utility = as_utility(judge)
        self.llm = llm
        self.feedback = feedback or TemplateFeedback()
        self.budget = budget

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Starts no event loop. Raises `InputError` when query or response is missing, as does `aevaluate`."""
        return self._evaluate(query, response, _passages(contexts))

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        sleep_time_in_seconds: int = 0,
        **kwargs: Any,
    ) -> EvaluationResult:
        await asyncio.sleep(sleep_time_in_seconds)  # LlamaIndex's runner spaces its calls this way
        return await self._aevaluate(query, response, _passages(contexts))

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Like the base class's, with the sources' metadata (a title counts as evidence)."""
        text, passages = _read(response)
        return self._evaluate(query, text, passages)

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        text, passages = _read(response)
        return await self._aevaluate(query, text, passages)

    def _evaluate(
        self, query: str | None, response: str | None, passages: tuple[Passage, ...]
    ) -> EvaluationResult:
        question, candidate = _given(query, response)
        try:
            (verdict, words), _ = run(self._flow(question, candidate, passages), llm=self.llm, budget=self.budget)
        except Exception as error:
            verdict, words = _failed(error)
        return _result(question, candidate, passages, verdict, words)

    async def _aevaluate(
        self, query: str | None, response: str | None, passages: tuple[Passage, ...]
    ) -> EvaluationResult:
        question, candidate = _given(query, response)
        flow = self._flow(question, candidate, passages)
        try:
            (verdict, words), _ = await arun(flow, llm=self.llm, budget=self.budget)
        except Exception as error:
            verdict, words = _failed(error)
        return _result(question, candidate, passages, verdict, words)

    def _flow(self, question: str, candidate: str, passages: tuple[Passage, ...]) -> Flow[tuple[Verdict, str]]:
        if not any(p.text.strip() for p in passages):
            return Verdict(
                "unknown", 0.0, (Reason("there is nothing to check the answer against", "empty_evidence"),)
            ), ""
        memory = WorkingMemory(question, evidence=passages)
        verdict = yield from self.utility.assess(memory, candidate)
        words = "" if verdict.passed else (yield from self.feedback.write(memory, candidate, verdict))
        return verdict, words

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        return


def _given(query: str | None, response: str | None) -> tuple[str, str]:
    if query is None or response is None:
        missing = "query" if query is None else "response"
        raise InputError(f"{missing} must be given: an evaluation needs query, response and contexts")
    return query, response


def _read(response: Response | None) -> tuple[str | None, tuple[Passage, ...]]:
    if response is None:
        return None, ()
    return response.response, to_passages(response.source_nodes, captions=True)


def _passages(contexts: Sequence[str] | None) -> tuple[Passage, ...]:
    return tuple(Passage(text, f"context-{i}") for i, text in enumerate(contexts or (), 1))


def _failed(error: Exception) -> tuple[Verdict, str]:
    """The verdict where the judge failed; a mistake (`is_mistake`) raises."""
    if is_mistake(error):
        raise error
    fell_back("evaluation", error, "nothing is known of the answer")
    return Verdict("unknown", 0.0, (Reason(said(error), "judge_error"),)), ""


def _result(
    question: str, candidate: str, passages: Sequence[Passage], verdict: Verdict, words: str
) -> EvaluationResult:
    unknown = verdict.outcome == "unknown"
    reasons = "; ".join(r.text for r in verdict.reasons)
    return EvaluationResult(
        query=question,
        contexts=[p.text for p in passages],
        response=candidate,
        passing=None if unknown else verdict.passed,
        feedback=words or reasons or "the answer holds",
        score=None if unknown else verdict.score,
        invalid_result=unknown,
        invalid_reason=reasons if unknown else None,
    )
