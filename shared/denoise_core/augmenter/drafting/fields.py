"""Structured output, checked field by field: a JSON object as one claim for each value in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utility import Utility
from denoise_core.running.effects import Flow
from denoise_core.text.words import words

_MOST = 200  # values that are judged; what has more says so


@dataclass(frozen=True, slots=True)
class FieldClaim:
    """One value of a JSON object: ``path`` as in ``works[0].year``, ``name`` in words, ``text`` of the value."""

    path: str
    name: str
    text: str


def field_claims(fields: Mapping[str, Any]) -> tuple[FieldClaim, ...]:
    """One claim for each value that says something, in the object's order.

    ``None``, empty texts, empty lists and booleans make none: they hold no words that evidence could be held
    against.
    """
    return tuple(_leaves(fields, "", ""))


def assess_fields(utility: Utility, memory: WorkingMemory, fields: Mapping[str, Any]) -> Flow[Verdict]:
    """Each value judged as the answer to the question about its field.

    Passes when every value does. One that fails makes it fail, with the field's path as the claim; otherwise one
    that could not be judged makes it unknown. The score is the lowest. No value is blamed for leaving the question
    unanswered: all of them together answer it.
    """
    claims = field_claims(fields)
    if not claims:
        return Verdict("unknown", 0.0, (Reason("no field holds anything to check", "empty"),))
    reasons: list[Reason] = []
    scores: list[float] = []
    outcomes: set[str] = set()
    for claim in claims[:_MOST]:
        repeats = set(words(claim.text)) <= set(words(memory.question))  # a name that was asked about, say
        question = claim.name if repeats else f"{memory.question} ({claim.name})"
        verdict = yield from utility.assess(replace(memory, question=question), claim.text)
        outcomes.add("pass" if verdict.holds else verdict.outcome)
        scores.append(verdict.score)
        if not verdict.holds:
            reasons += _of_field(claim, verdict)
    if len(claims) > _MOST:
        outcomes.add("unknown")
        reasons.append(Reason(f"{len(claims) - _MOST} of {len(claims)} fields were not checked", "length"))
    outcome = "fail" if "fail" in outcomes else "unknown" if "unknown" in outcomes else "pass"
    return Verdict(outcome, min(scores), tuple(reasons))  # type: ignore[arg-type]


def _of_field(claim: FieldClaim, verdict: Verdict) -> list[Reason]:
    if not verdict.reasons:
        return [Reason("the evidence does not say this", "field", claim.path)]
    return [replace(r, claim=f"{claim.path}: {claim.text}") for r in verdict.reasons]


def _leaves(value: Any, path: str, name: str) -> Iterator[FieldClaim]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), _words(str(key), name))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for n, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{n}]", name)
    elif value is not None and not isinstance(value, bool) and (text := str(value).strip()):
        yield FieldClaim(path, name, text)


def _words(key: str, before: str) -> str:
    """``completedIn`` and ``completed_in`` are "completed in"."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", key).strip().lower()
    return f"{before}, {apart}" if before else apart
