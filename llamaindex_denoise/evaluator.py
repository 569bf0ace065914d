"""Utilities as LlamaIndex evaluators, and evaluators as utilities. What is unknown is never a pass."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from denoise_core import LLM, Budget, InputError, Message, Passage, Reply, UnparsableReply, arun, run
from denoise_core.augmenter import Feedback, Reason, TemplateFeedback, Utility, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.groundedness import as_utility
from denoise_core.errors import is_mistake, said
from denoise_core.running.effects import Flow, complete
from denoise_core.running.fallbacks import fell_back
from denoise_core.support.judging import Judge
from llamaindex_denoise.models.blocking import driven, with_blocking_models
from llamaindex_denoise.models.threads import owner
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


class EvaluatorUtility:
    """Any LlamaIndex evaluator as a utility of the loop; one evaluation counts as one call of the budget.

    ``passing=None`` and ``invalid_result`` are unknown, and so is an evaluator that raises. ``best_score`` is
    the evaluator's top mark (5 for `CorrectnessEvaluator`); scores are divided by it. An evaluator without a
    score gives 1 for a pass, 0 otherwise. At most ``max_characters`` of evidence go to it, best first.

    Evaluators are asynchronous inside. Under a synchronous loop one with its own ``evaluate`` is asked by it; any
    other runs in the caller's thread without an event loop, its models in their synchronous form, and
    one that has to wait for a loop raises `InputError`. LlamaIndex's `FaithfulnessEvaluator` looks for "yes"
    anywhere in a reply; prefer `Groundedness` or an LLM judge of `denoise_core` where that matters. Raises
    `InputError` for an unusable argument.
    """

    def __init__(self, evaluator: BaseEvaluator, *, best_score: float = 1.0, max_characters: int = 24_000) -> None:
        if not isinstance(evaluator, BaseEvaluator):
            raise InputError(f"expected a llama_index evaluator, got {type(evaluator).__name__}")
        if type(evaluator).__name__ == "SemanticSimilarityEvaluator":  # asked by name: importing it costs
            raise InputError("a SemanticSimilarityEvaluator compares with a reference answer, and here is none")
        if not best_score > 0 or max_characters < 1:
            raise InputError(f"best_score={best_score}, max_characters={max_characters}: expected both above 0")
        self.evaluator = evaluator
        self.best_score = best_score
        self.max_characters = max_characters

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        asked = (Message("user", memory.question), Message("assistant", candidate))
        judge = _Judge(self.evaluator, memory.question, candidate, self._contexts(memory.evidence))
        reply = yield from complete(asked, tag="evaluate", llm=judge)
        return self._verdict(json.loads(reply.text))

    def _contexts(self, evidence: Sequence[Passage]) -> list[str]:
        left = self.max_characters
        contexts = []
        for p in evidence:
            if left <= 0:
                break
            contexts.append(p.headed[:left])
            left -= len(p.headed)
        return contexts

    def _verdict(self, result: dict[str, Any]) -> Verdict:
        said = str(result["feedback"] or result["invalid_reason"] or "the evaluator gave no reason")
        if result["invalid_result"] or result["passing"] is None:
            return Verdict("unknown", 0.0, (Reason(said, "evaluator"),))
        passed = bool(result["passing"])
        score = float(passed) if result["score"] is None else float(result["score"]) / self.best_score
        if not math.isfinite(score):
            raise UnparsableReply(f"the evaluator gave the score {result['score']!r}; expected a finite number")
        score = min(1.0, max(0.0, score))
        return Verdict("pass", score) if passed else Verdict("fail", score, (Reason(said, "evaluator"),))


class _Judge:
    """One evaluation in the shape of a model, so that it is traced, budgeted and run sync or async."""

    def __init__(self, evaluator: BaseEvaluator, question: str, candidate: str, contexts: list[str]) -> None:
        self.evaluator = evaluator
        self.asked = {"query": question, "response": candidate}
        self.contexts = contexts

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _said(await self.evaluator.aevaluate(**self.asked, contexts=self.contexts))

    def complete(self, messages: Sequence[Message]) -> Reply:
        if owner(self.evaluator, "evaluate") is not BaseEvaluator:
            return _said(self.evaluator.evaluate(**self.asked, contexts=self.contexts))
        # Not the inherited evaluate(): it starts an event loop, and masks errors.
        asked = with_blocking_models(self.evaluator).aevaluate(**self.asked, contexts=self.contexts)
        return _said(driven(asked, of=type(self.evaluator).__name__))


def _said(result: EvaluationResult) -> Reply:
    told = {"passing", "score", "feedback", "invalid_result", "invalid_reason"}
    return Reply(result.model_dump_json(include=told))


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
