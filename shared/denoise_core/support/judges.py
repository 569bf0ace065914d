"""Plain functions as judges.

Each claim is judged by itself. A judge of another package becomes a function around it
(docs/how_to/own_judge.md). A function may be a coroutine function; one that blocks runs
on a thread in async code.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, SupportsFloat

from denoise_core.errors import InputError
from denoise_core.runtime.thread_pool import run_in_pool, run_in_thread
from denoise_core.support.judging import AnswerVerdict, Claim, ClaimVerdict
from denoise_core.support.labels import passage_header
from denoise_core.types import Passage

_PARAMETERS = ("question", "evidence", "claim")
_REASON_CHARACTERS = 500
_CLAIMS_AT_ONCE = 8  # in async code
_UNSUPPORTED_REASON = "the evidence does not say this"


class FunctionJudge:
    """A function as a judge, called once for each claim.

    >>> judge = FunctionJudge(lambda question, evidence, claim: 0.9, name="mine")
    >>> judge.judge("When?", [Claim("In 1889.", 0, 8)], []).supported
    True

    Args:
        function: Called as ``function(question, evidence, claim)``, ``evidence`` the
            texts of the passages, of one without text what its metadata says. If all
            its parameters are among these three names, it is called by name. It returns
            a number from 0 to ``best``, a bool, None for "cannot say", or a pair of one
            of these and a reason.
        name: What the judge is called in answers; the function's name by default.
        threshold: The share of ``best`` from which on a claim is supported.
        best: The highest number that the function returns.

    Raises:
        InputError: For anything that is not a function, and settings out of range.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        threshold: float = 0.5,
        best: float = 1.0,
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(
                f"function: expected a function of question, evidence and claim, got "
                f"{function!r:.80}; call a judge of another package in a function of "
                "your own (how-to: your own judge)"
            )
        if not 0.0 <= threshold <= 1.0 or best <= 0:
            raise InputError(
                f"threshold={threshold}, best={best}: expected 0 to 1, above 0"
            )
        self.function = function
        self.threshold = threshold
        self.best = best
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self._parameter_names = _named_parameters(function)

    @property
    def id(self) -> str:
        """The judge's name."""
        return self.name

    def judge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge the claims one after the other."""
        verdicts = []
        for claim in claims:
            result = self._call(question, claim, passages)
            if inspect.isawaitable(result):
                # In a notebook a loop runs already; a thread can have a second one.
                result = run_in_thread(partial(asyncio.run, _await_result(result)))
            verdict = self._to_verdict(claim, result)
            verdicts.append(verdict)
        return AnswerVerdict.of_claims(verdicts, judge=self.id)

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> AnswerVerdict:
        """Judge several claims at once.

        Once a claim has failed no other is begun, as in `judge`.
        """
        free_slots = asyncio.Semaphore(_CLAIMS_AT_ONCE)
        errors: list[Exception] = []

        async def judge_claim(claim: Claim) -> ClaimVerdict:
            async with free_slots:
                if errors:
                    raise errors[0]
                try:
                    result = await run_in_pool(self._call, question, claim, passages)
                    if inspect.isawaitable(result):
                        result = await result
                    return self._to_verdict(claim, result)
                except Exception as error:
                    errors.append(error)
                    raise

        verdicts = await asyncio.gather(*(judge_claim(claim) for claim in claims))
        return AnswerVerdict.of_claims(verdicts, judge=self.id)

    def _call(self, question: str, claim: Claim, passages: Sequence[Passage]) -> Any:
        evidence = []
        for passage in passages:
            text = passage.text_with_header
            if not passage.text.strip():
                text = passage_header(passage)
            if text.strip():
                evidence.append(text)
        if not self._parameter_names:
            return self.function(question, evidence, claim.full_text)
        arguments = {
            "question": question,
            "evidence": evidence,
            "claim": claim.full_text,
        }
        named_arguments = {name: arguments[name] for name in self._parameter_names}
        return self.function(**named_arguments)

    def _to_verdict(self, claim: Claim, result: object) -> ClaimVerdict:
        supported, probability, reason = read_verdict(result, self.best)
        if supported is None and probability is not None:
            supported = probability >= self.threshold
        if supported:
            kind = reason = ""
        elif supported is None:
            kind = "judge_unsure"
            reason = reason or f"{self.name} could not say"
        else:
            kind = "unsupported"
            reason = reason or _UNSUPPORTED_REASON
        return ClaimVerdict(
            claim.text,
            claim.start,
            claim.end,
            supported,
            probability,
            kind=kind,
            reason=reason,
        )


function_judge = FunctionJudge


def read_verdict(
    value: object, best: float = 1.0
) -> tuple[bool | None, float | None, str]:
    """Read what a function returned for a claim.

    Args:
        value: None, a bool, a number up to ``best``, or a pair of one of these and a
            reason.
        best: The highest number.

    Returns:
        Whether the claim is supported, the probability of it, and the reason; None and
        "" where the value does not say.

    Raises:
        InputError: For any other value.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2:
        supported, probability, _ = read_verdict(value[0], best)
        words = str(value[1]).split()
        reason = " ".join(words)
        return supported, probability, reason[:_REASON_CHARACTERS]
    if value is None:
        return None, None, ""
    type_name = type(value).__name__
    if type_name in ("bool", "bool_"):  # NumPy's too
        return bool(value), None, ""
    if not isinstance(value, SupportsFloat):
        raise InputError(
            f"the judge returned {value!r:.80} ({type_name}); expected a "
            f"number from 0 to {best:g}, a bool, None, or a pair of one and a reason"
        )
    score = float(value)
    if math.isnan(score):
        return None, None, ""
    if not 0.0 <= score <= best:
        raise InputError(
            f"the judge returned {value!r}; expected a number from 0 to {best:g}: "
            "pass best="
        )
    return None, score / best, ""


def _named_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a function, if all are named question, evidence or claim.

    The order then does not matter, and a function may leave one out. () for any other
    function: it gets all three in their order.
    """
    try:
        names = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return ()
    if set(names) <= set(_PARAMETERS):
        return names
    return ()


async def _await_result(result: Awaitable[Any]) -> Any:
    return await result
