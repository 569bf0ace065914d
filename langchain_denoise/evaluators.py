"""Evaluators for datasets as LangSmith calls them: functions of ``inputs``, ``outputs`` and ``reference_outputs``.

No account is needed to call them. Documents are `Document`s, dicts of them, or texts, under a usual key. Each
gives ``{"key", "score", "comment"}``, the score None where nothing can be said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from denoise_core import InputError, Passage
from denoise_core.augmenter.drafting.drafter import Written
from langchain_denoise.convert.places import ANSWER_KEYS, EVIDENCE_KEYS, QUESTION_KEYS
from langchain_denoise.verification.verifier import Verifier


def gold_kept(outputs: Mapping[str, Any], reference_outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The share of ``reference_outputs["gold"]`` (texts) that stand in the output's documents, spaces aside."""
    gold = [_plain(t) for t in _texts(reference_outputs.get("gold", ()))]
    found = _plain(" ".join(_documents(outputs)))
    kept = sum(g in found for g in gold)
    return {"key": "gold_kept", "score": kept / len(gold) if gold else None, "comment": f"{kept} of {len(gold)}"}


def tokens_saved(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The share of the characters of the input's documents that the output's do without; of the tokens it is about
    the same."""
    before, after = (sum(map(len, _documents(given))) for given in (inputs, outputs))
    score = 1 - after / before if before else None
    return {"key": "tokens_saved", "score": score, "comment": f"{before} characters, then {after}"}


class Supported:
    """Whether the output's answer holds against its documents, in the judgement of a `Verifier`: 1 where it is
    supported, 0 where it is not, None where nothing can be said."""

    def __init__(self, verifier: Verifier | None = None) -> None:
        self.verifier = verifier or Verifier()

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        question, said = _first(inputs, QUESTION_KEYS), _first(outputs, ANSWER_KEYS)
        evidence = [Passage(t, f"passage-{i}") for i, t in enumerate(_documents(outputs))]
        answer = self.verifier.loop.answer(str(question), drafter=Written(str(said), evidence))
        score = {"supported": 1, "unsupported": 0}.get(str(answer.outcome))
        why = "; ".join(reason for a in answer.memory.attempts[:1] for reason in a.verdict.reasons)
        return {"key": "supported", "score": score, "comment": f"{answer.outcome}: {why}".rstrip(": ")}


def _documents(given: Mapping[str, Any]) -> list[str]:
    if not isinstance(given, Mapping):
        raise InputError(f"expected inputs and outputs as dicts, got a {type(given).__name__}")
    return _texts(next((given[k] for k in (*EVIDENCE_KEYS, "output") if k in given), ()))


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if key in given:
            return given[key]
    raise InputError(f"none of the keys {', '.join(keys)} is there; keys: {sorted(map(str, given))}")


def _texts(found: Any) -> list[str]:
    items = [found] if isinstance(found, (str, Document, Mapping)) else list(found)
    return [
        i if isinstance(i, str) else i.page_content if isinstance(i, Document) else i["page_content"]
        for i in items
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())
