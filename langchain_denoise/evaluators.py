"""Evaluators for LangSmith-style datasets: functions of a run and an example. No account is needed to call them.

A run has ``outputs``, an example ``inputs`` and ``outputs``, as objects or dicts; or ``inputs``, ``outputs`` and
``reference_outputs`` are given by these names. Documents are `Document`s, dicts of them, or texts. Each gives
``{"key", "score", "comment"}``, the score None where nothing can be said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from denoise_core import InputError, Passage
from denoise_core.augmenter.drafting.drafter import Written
from langchain_denoise.convert.places import ANSWER_KEYS, EVIDENCE_KEYS, QUESTION_KEYS
from langchain_denoise.verification.verifier import Verifier


def gold_kept(
    run: Any = None,
    example: Any = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    reference_outputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The share of ``example.outputs["gold"]`` (texts) that stand in the documents of ``run.outputs``, white space
    aside."""
    gold = [_plain(t) for t in _texts(_part(example, "outputs", reference_outputs).get("gold", ()))]
    found = _plain(" ".join(_texts(_documents(_part(run, "outputs", outputs)))))
    kept = sum(g in found for g in gold)
    score = kept / len(gold) if gold else None
    return {"key": "gold_kept", "score": score, "comment": f"{kept} of {len(gold)}"}


def tokens_saved(
    run: Any = None,
    example: Any = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    reference_outputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The share of the characters of ``example.inputs``' documents that those of ``run.outputs`` do without; of
    the tokens it is about the same."""
    before = sum(map(len, _texts(_documents(_part(example, "inputs", inputs)))))
    after = sum(map(len, _texts(_documents(_part(run, "outputs", outputs)))))
    score = 1 - after / before if before else None
    return {"key": "tokens_saved", "score": score, "comment": f"{before} characters, then {after}"}


class Supported:
    """Whether the answer of ``run.outputs`` holds against its documents, in the judgement of a `Verifier`: 1 where
    it is supported, 0 where it is not, None where nothing can be said."""

    def __init__(self, verifier: Verifier | None = None) -> None:
        self.verifier = verifier or Verifier()

    def __call__(
        self,
        run: Any = None,
        example: Any = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        reference_outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        found, given = _part(run, "outputs", outputs), _part(example, "inputs", inputs)
        question = _first({**given, **{k: v for k, v in found.items() if k not in ANSWER_KEYS}}, QUESTION_KEYS)
        evidence = [Passage(t, f"passage-{i}") for i, t in enumerate(_texts(_documents(found)))]
        written = Written(str(_first(found, ANSWER_KEYS)), evidence)
        answer = self.verifier.loop.answer(str(question), drafter=written)
        score = {"supported": 1, "unsupported": 0}.get(str(answer.outcome))
        why = "; ".join(r.text for a in answer.memory.attempts[:1] for r in a.verdict.reasons)
        return {"key": "supported", "score": score, "comment": f"{answer.outcome}: {why}".rstrip(": ")}


def _part(value: Any, name: str, given: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What was given by its name, or else stands under ``name`` of a run or an example."""
    if given is not None:
        return given
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if not isinstance(found, Mapping):
        raise InputError(f"expected an object or dict with {name} as a dict, got {type(value).__name__}")
    return found


def _documents(found: Mapping[str, Any]) -> Any:
    return next((found[k] for k in (*EVIDENCE_KEYS, "output") if k in found), ())


def _first(found: Mapping[str, Any], keys: Iterable[str]) -> Any:
    for key in keys:
        if key in found:
            return found[key]
    raise InputError(f"none of the keys {', '.join(keys)} is there; keys: {sorted(map(str, found))}")


def _texts(found: Any) -> list[str]:
    items = [found] if isinstance(found, (str, Document, Mapping)) else list(found)
    return [
        i if isinstance(i, str) else i.page_content if isinstance(i, Document) else i["page_content"]
        for i in items
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())
