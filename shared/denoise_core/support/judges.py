"""Any callable as a judge: functions and other packages' evaluators; a decision model by `decision`.

Evaluators are those of RAGAS, TruLens, openevals, DeepEval, LangChain and LlamaIndex.

Each claim is asked for by itself. What a function is given follows from the names of its parameters, what it says
from the shape of its result. Both forms are kept: a coroutine is awaited, and what blocks runs on a thread.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from denoise_core.errors import InputError
from denoise_core.runtime.thread_pool import run_in_pool, run_in_thread
from denoise_core.support.judging import AnswerVerdict, Claim, ClaimVerdict
from denoise_core.text.delimit import wrap_in_envelope
from denoise_core.types import Passage

# Methods by which other packages' evaluators are asked, in their blocking and their asynchronous form.
_METHODS = (
    ("measure", "a_measure"),  # DeepEval
    ("single_turn_score", "single_turn_ascore"),  # RAGAS
    ("score", "ascore"),  # RAGAS, newer
    ("evaluate_strings", "aevaluate_strings"),  # LangChain
    ("evaluate", "aevaluate"),  # LlamaIndex
)
# What stands for the question, the claim, the evidence as one text and as several: names of parameters.
_NAMES = (
    ("question", "query", "input", "inputs", "user_input", "prompt"),
    ("claim", "candidate", "answer", "response", "statement", "hypothesis", "prediction", "output", "outputs",
     "actual_output", "text"),
    ("context", "source", "premise", "reference", "reference_outputs", "document", "knowledge"),
    ("evidence", "contexts", "passages", "documents", "retrieved_contexts", "retrieval_context", "chunks"),
)  # fmt: skip
# What DeepEval and RAGAS take: the parameter, its class, and the fields of it.
_CASES = {
    "test_case": (
        "deepeval.test_case",
        "LLMTestCase",
        ("input", "actual_output", "retrieval_context"),
    ),
    "sample": (
        "ragas.dataset_schema",
        "SingleTurnSample",
        ("user_input", "response", "retrieved_contexts"),
    ),
}
_DECIDED = ("supported", "passing", "passed")
_SCORES = ("score", "value", "probability", *_DECIDED, "verdict")
_REASONS = (
    "reason",
    "reasons",
    "reasoning",
    "comment",
    "feedback",
    "why",
    "explanation",
    "invalid_reason",
)
_LONGEST = 500  # characters of a reason
GROUNDED = "Is every statement of the answer said by the evidence? Judge by the evidence alone."


class FunctionJudge:
    """A function, or an evaluator of another package, as a judge; asked claim by claim, ``limit`` at once.

    Parameters are filled by their names (question, query, input ...; evidence, contexts, source ...; claim,
    answer, response ...), others by place: question, evidence texts, claim. It may be asynchronous, and gives a
    number from 0 to ``best``, a bool, None for "cannot say", (score, reasons), a mapping or an object with
    ``score``.

    >>> judge = FunctionJudge(lambda question, evidence, claim: 0.9, name="mine")
    >>> judge.judge("When?", [Claim("In 1889.", 0, 8)], []).supported
    True
    """

    def __init__(
        self,
        function: Any,
        *,
        name: str = "",
        threshold: float = 0.5,
        best: float = 1.0,
        limit: int = 8,
    ) -> None:
        if not 0.0 <= threshold <= 1.0 or best <= 0 or limit < 1:
            raise InputError(
                f"threshold={threshold}, best={best}, limit={limit}: expected 0 to 1, above 0, 1 or more"
            )
        self.threshold, self.best, self.limit = threshold, best, limit
        self.function = function
        self._blocking, self._waiting = _forms(function)
        told = getattr(function, "__name__", "") or getattr(function, "name", "")
        self.name = name or (
            told if isinstance(told, str) and told else type(function).__name__
        )

    @property
    def id(self) -> str:
        """The function's name, or the one that was given."""
        return self.name

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        verdicts = [
            self._verdict(c, _waited(self._call(self._blocking, question, c, passages)))
            for c in claims
        ]
        return AnswerVerdict.of_claims(verdicts, judge=self.id)

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """At most ``limit`` claims at once; once one failed, none that has not begun is asked, as in `judge`."""
        room = asyncio.Semaphore(self.limit)
        failed: list[Exception] = []

        async def one(claim: Claim) -> ClaimVerdict:
            async with room:
                if failed:
                    raise failed[0]
                try:
                    return self._verdict(
                        claim, await self._acall(question, claim, passages)
                    )
                except Exception as error:
                    failed.append(error)
                    raise

        verdicts = await asyncio.gather(*(one(c) for c in claims))
        return AnswerVerdict.of_claims(verdicts, judge=self.id)

    async def _acall(
        self, question: str, claim: Claim, passages: Sequence[Passage]
    ) -> object:
        if self._waiting is not None:
            return await self._call(self._waiting, question, claim, passages)
        found = await run_in_pool(self._call, self._blocking, question, claim, passages)
        return await found if inspect.isawaitable(found) else found

    def _call(
        self,
        call: Callable[..., Any],
        question: str,
        claim: Claim,
        passages: Sequence[Passage],
    ) -> Any:
        args, named = _arguments(
            call,
            question,
            claim.full_text,
            [p.text_with_header for p in passages if p.text.strip()],
        )
        return call(*args, **named)

    def _verdict(self, claim: Claim, found: object) -> ClaimVerdict:
        supported, score, why = read_verdict(found, self.best)
        why = why or _text(
            getattr(self.function, "reason", "")
        )  # DeepEval keeps its reason on the metric
        if supported is None and score is not None:
            supported = score >= self.threshold
        kind, usual = {
            True: ("", ""),
            False: ("unsupported", "the evidence does not say this"),
            None: ("judge_unsure", f"{self.name} could not say"),
        }[supported]
        reason = (why or usual) if kind else ""
        return ClaimVerdict(
            claim.text,
            claim.start,
            claim.end,
            supported,
            score,
            kind=kind,
            reason=reason,
        )


function_judge = FunctionJudge


def decision_judge(
    decide: Any, *, threshold: float = 0.5, name: str = "decision"
) -> FunctionJudge:
    """The probability of yes to "is every statement said by the evidence?", from one forward pass a claim.

    ``decide`` is a model name for the ``decision`` pipeline of transformers, such a pipeline, or any callable
    that takes ``{"state": text, "questions": {name: {"type": "noul", "instructions": text}}}`` and returns
    ``{name: {"noul": probability}}``.
    """
    return FunctionJudge(_Decision(decide), name=name, threshold=threshold, limit=1)


class _Decision:
    """`decision`."""

    def __init__(self, decide: Any) -> None:
        from denoise_core.scorers.decisions import (
            LocalDecisions,
        )  # not for every judge: it is slow to import

        self.decide = LocalDecisions(decide) if isinstance(decide, str) else decide

    def __call__(self, question: str, evidence: list[str], claim: str) -> float:
        shown = "\n".join(
            wrap_in_envelope(e, f"evidence {n}") for n, e in enumerate(evidence, 1)
        )
        state = f"{shown}\n{wrap_in_envelope(question, 'question')}\n{wrap_in_envelope(claim, 'draft')}"
        asked = {
            "state": state,
            "questions": {"grounded": {"type": "noul", "instructions": GROUNDED}},
        }
        return float(self.decide(asked)["grounded"]["noul"])


def read_verdict(
    value: object, best: float = 1.0
) -> tuple[bool | None, float | None, str]:
    """Whether a claim is supported, with which probability and why, out of what a function gave: None, a bool, a
    number up to ``best``, (score, reasons), a mapping, or an object with such attributes. Raises `InputError` for
    anything else."""
    if value is None:
        return None, None, ""
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's too
        return bool(value), None, ""
    if isinstance(value, (tuple, list)) and value:
        supported, score, reason = read_verdict(value[0], best)
        given = value[1] if len(value) > 1 else ""
        return supported, score, reason or _text(given)
    if hasattr(value, "__float__"):
        return None, _probability(value, best), ""
    return _from_fields(_fields_of(value, best), best)


def _probability(value: Any, best: float) -> float | None:
    score = float(value)
    if math.isnan(score):
        return None
    if not 0.0 <= score <= best:
        raise InputError(
            f"the judge returned {value!r}; expected a number from 0 to {best:g}: pass best="
        )
    return score / best


def _fields_of(value: object, best: float) -> Mapping[str, Any]:
    """A mapping as it is; the known attributes of an object."""
    if isinstance(value, Mapping):
        return value
    known = (*_SCORES, *_REASONS, "invalid_result")
    fields = {name: getattr(value, name) for name in known if hasattr(value, name)}
    if not fields.keys() & set(_SCORES):
        raise InputError(
            f"the judge returned {value!r:.80} ({type(value).__name__}); expected a number from 0 to {best:g}, a "
            "bool, None, a tuple"
        )
    return fields


def _from_fields(
    fields: Mapping[str, Any], best: float
) -> tuple[bool | None, float | None, str]:
    reasons = [_text(fields.get(name)) for name in _REASONS]
    reason = next(filter(None, reasons), "")
    if fields.get("invalid_result"):
        return None, None, reason
    scores = [fields.get(name) for name in _SCORES]
    first = next((s for s in scores if s is not None and not isinstance(s, str)), None)
    supported, probability, _ = read_verdict(first, best)
    decided = next(
        (fields[name] for name in _DECIDED if isinstance(fields.get(name), bool)),
        supported,
    )
    return decided, probability, reason


def _forms(function: Any) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """The blocking and the asynchronous form; the first may give something to be awaited."""
    if function is None or isinstance(function, (type, str, int, float)):
        raise InputError(
            f"function: expected a function or an evaluator, got {function!r:.80}; a model judges through "
            "a function around its own package (how-to: your own judge)"
        )
    for blocking, waiting in _METHODS:
        one, two = getattr(function, blocking, None), getattr(function, waiting, None)
        if callable(one) or callable(two):
            return (one if callable(one) else two), (two if callable(two) else None)  # type: ignore[return-value]
    if not callable(function):
        raise InputError(
            f"function: expected a function or an evaluator, got a {type(function).__name__}"
        )
    called = (
        function
        if inspect.isroutine(function)
        else getattr(type(function), "__call__", function)
    )  # noqa: B004
    return function, function if inspect.iscoroutinefunction(called) else None


def _arguments(
    call: Callable[..., Any], question: str, claim: str, evidence: list[str]
) -> tuple[list[Any], dict[str, Any]]:
    """By the names of the parameters; a function that names none is given question, evidence and claim."""
    by_place: tuple[list[Any], dict[str, Any]] = [question, evidence, claim], {}
    try:
        wanted = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return by_place
    values = (question, claim, "\n".join(evidence), evidence)
    known = {
        n: value for names, value in zip(_NAMES, values, strict=True) for n in names
    }
    named = {
        p.name: p for p in wanted if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    for case in _CASES.keys() & named.keys():
        return [], {case: _case(case, question, claim, evidence)}
    mine = {n: known[n] for n in named if n in known}
    if not mine and any(p.kind is p.VAR_KEYWORD for p in wanted):
        return [], {
            "inputs": question,
            "outputs": claim,
            "context": "\n".join(evidence),
        }  # openevals
    strange = any(p.default is p.empty and n not in known for n, p in named.items())
    return by_place if strange or not mine else ([], mine)


def _case(kind: str, *values: Any) -> Any:
    """What DeepEval and RAGAS take; a plain object of the same fields where they are not installed."""
    place, name, fields = _CASES[kind]
    named = dict(zip(fields, values, strict=True))
    if kind == "test_case":
        named["context"] = named["retrieval_context"]
    try:
        return getattr(import_module(place), name)(**named)
    except ImportError:
        return SimpleNamespace(**named)


def _waited(found: Any) -> Any:
    """What a coroutine gives, in blocking code; beside a running loop on a thread with a loop of its own."""
    if not inspect.isawaitable(found):
        return found

    async def whole(waiting: Awaitable[Any]) -> Any:
        return await waiting

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole(found))
    return run_in_thread(lambda: asyncio.run(whole(found)))


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        value = "; ".join(str(v) for v in value.values())
    elif isinstance(value, (list, tuple)):
        value = "; ".join(map(str, value))
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""
