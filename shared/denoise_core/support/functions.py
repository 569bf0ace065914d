"""Functions and other packages' evaluators as judges: RAGAS, TruLens, openevals, DeepEval, LangChain, LlamaIndex.

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
from denoise_core.running.offload import offload, on_a_thread
from denoise_core.support.judging import Claim, Judged
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
    "test_case": ("deepeval.test_case", "LLMTestCase", ("input", "actual_output", "retrieval_context")),
    "sample": ("ragas.dataset_schema", "SingleTurnSample", ("user_input", "response", "retrieved_contexts")),
}
_DECIDED = ("supported", "passing", "passed")
_SCORES = ("score", "value", "probability", *_DECIDED, "verdict")
_REASONS = ("reason", "reasons", "reasoning", "comment", "feedback", "why", "explanation", "invalid_reason")
_LONGEST = 500  # characters of a reason


class FunctionJudge:
    """A function, or an evaluator of another package, as a judge; asked claim by claim, ``limit`` at once.

    Parameters are filled by their names (question, query, input ...; evidence, contexts, source ...; claim,
    answer, response ...), others by place: question, evidence texts, claim. It may be asynchronous, and gives a
    number from 0 to ``best``, a bool, None for "cannot say", (score, reasons), a mapping or an object with
    ``score``.

    >>> judge = FunctionJudge(lambda question, evidence, claim: 0.9, name="mine")
    >>> [j.supported for j in judge.judge("When?", [Claim("In 1889.", 0, 8)], [])]
    [True]
    """

    def __init__(
        self, function: Any, *, name: str = "", threshold: float = 0.5, best: float = 1.0, limit: int = 8
    ) -> None:
        if not 0.0 <= threshold <= 1.0 or best <= 0 or limit < 1:
            raise InputError(
                f"threshold={threshold}, best={best}, limit={limit}: expected 0 to 1, above 0, 1 or more"
            )
        self.threshold, self.best, self.limit = threshold, best, limit
        self.function = function
        self._blocking, self._waiting = _forms(function)
        told = getattr(function, "__name__", "") or getattr(function, "name", "")
        self.name = name or (told if isinstance(told, str) and told else type(function).__name__)

    @property
    def id(self) -> str:
        """The function's name, or the one that was given."""
        return self.name

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> tuple[Judged, ...]:
        return tuple(self._said(c, _waited(self._call(self._blocking, question, c, passages))) for c in claims)

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> tuple[Judged, ...]:
        """At most ``limit`` claims at once; once one failed, none that has not begun is asked, as in `judge`."""
        room = asyncio.Semaphore(self.limit)
        failed: list[Exception] = []

        async def one(claim: Claim) -> Judged:
            async with room:
                if failed:
                    raise failed[0]
                try:
                    return self._said(claim, await self._acall(question, claim, passages))
                except Exception as error:
                    failed.append(error)
                    raise

        return tuple(await asyncio.gather(*(one(c) for c in claims)))

    async def _acall(self, question: str, claim: Claim, passages: Sequence[Passage]) -> object:
        if self._waiting is not None:
            return await self._call(self._waiting, question, claim, passages)
        found = await offload(self._call, self._blocking, question, claim, passages)
        return await found if inspect.isawaitable(found) else found

    def _call(self, call: Callable[..., Any], question: str, claim: Claim, passages: Sequence[Passage]) -> Any:
        args, named = _arguments(call, question, claim.whole, [p.headed for p in passages if p.text.strip()])
        return call(*args, **named)

    def _said(self, claim: Claim, found: object) -> Judged:
        supported, score, why = reading(found, self.best)
        why = why or _text(getattr(self.function, "reason", ""))  # DeepEval keeps its reason on the metric
        if supported is None and score is not None:
            supported = score >= self.threshold
        kind, usual = {
            True: ("", ""),
            False: ("unsupported", "the evidence does not say this"),
            None: ("judge_unsure", f"{self.name} could not say"),
        }[supported]
        return Judged(claim.text, claim.start, claim.end, supported, score, kind=kind, why=kind and (why or usual))


def reading(found: object, best: float = 1.0) -> tuple[bool | None, float | None, str]:
    """Whether a claim is supported, with which probability and why, out of what a function gave: None, a bool, a
    number up to ``best``, (score, reasons), a mapping, or an object with such attributes. Raises `InputError` for
    anything else."""
    if found is None or type(found).__name__ in ("bool", "bool_"):  # NumPy's too
        return (None if found is None else bool(found)), None, ""
    if isinstance(found, (tuple, list)) and found:
        supported, score, why = reading(found[0], best)
        return supported, score, why or _text(found[1] if len(found) > 1 else "")
    if hasattr(found, "__float__"):
        score = float(found)  # pyright: ignore
        if not (math.isnan(score) or 0.0 <= score <= best):
            raise InputError(f"the judge returned {found!r}; expected a number from 0 to {best:g}: pass best=")
        return None, (None if math.isnan(score) else score / best), ""
    known = (*_SCORES, *_REASONS, "invalid_result")
    values = found if isinstance(found, Mapping) else {n: getattr(found, n) for n in known if hasattr(found, n)}
    if not isinstance(found, Mapping) and not values.keys() & set(_SCORES):
        raise InputError(
            f"the judge returned {found!r:.80} ({type(found).__name__}); expected a number from 0 to {best:g}, a "
            "bool, None, a tuple"
        )
    why = next((w for n in _REASONS if (w := _text(values.get(n)))), "")
    if values.get("invalid_result"):
        return None, None, why
    decided = next((v for n in _DECIDED if isinstance(v := values.get(n), bool)), None)
    told = next((v for n in _SCORES if not isinstance(v := values.get(n), str | None)), None)
    supported, score_told, _ = reading(told, best)
    return (supported if decided is None else decided), score_told, why


def _forms(function: Any) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """The blocking and the asynchronous form; the first may give something to be awaited."""
    if function is None or isinstance(function, (type, str, int, float)):
        raise InputError(
            f"function: expected a function or an evaluator, got {function!r:.80}; a model is judges.model(name)"
        )
    for blocking, waiting in _METHODS:
        one, two = getattr(function, blocking, None), getattr(function, waiting, None)
        if callable(one) or callable(two):
            return (one if callable(one) else two), (two if callable(two) else None)  # type: ignore[return-value]
    if not callable(function):
        raise InputError(f"function: expected a function or an evaluator, got a {type(function).__name__}")
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
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
    known = {n: value for names, value in zip(_NAMES, values, strict=True) for n in names}
    named = {p.name: p for p in wanted if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for case in _CASES.keys() & named.keys():
        return [], {case: _case(case, question, claim, evidence)}
    mine = {n: known[n] for n in named if n in known}
    if not mine and any(p.kind is p.VAR_KEYWORD for p in wanted):
        return [], {"inputs": question, "outputs": claim, "context": "\n".join(evidence)}  # openevals
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
    return on_a_thread(lambda: asyncio.run(whole(found)))


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        value = "; ".join(str(v) for v in value.values())
    elif isinstance(value, (list, tuple)):
        value = "; ".join(map(str, value))
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""
