"""What is asked: a question as a person put it, and the same without distraction for the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from denoise_core.errors import InputError
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class Case:
    """``kind`` is the type that tables are broken down by; ``gold`` all forms of the right answer.

    ``clean_question`` and ``clean_passages`` hold no distractor: what the oracle is asked.
    """

    id: str
    kind: str
    question: str
    gold: tuple[str, ...]
    clean_question: str
    passages: tuple[Passage, ...] = ()
    clean_passages: tuple[Passage, ...] = ()


def from_opinions(records: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Questions with a suggested answer: fields ``id, prompt, question, opinion_type, correct_answer``.

    ``correct_aliases`` is used when there. Records without a single ``prompt`` (whole chats) are left out.
    Raises `InputError` naming a record that lacks a field.
    """
    cases = []
    for record in records:
        if _field(record, "prompt") is None:
            continue
        gold = tuple(
            record.get("correct_aliases") or [_field(record, "correct_answer")]
        )
        cases.append(
            Case(
                record["id"],
                _field(record, "opinion_type"),
                record["prompt"],
                gold,
                _field(record, "question"),
            )
        )
    return cases


def from_gsm(records: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Word problems with an irrelevant sentence: fields ``id, new_question, original_question, answer``.

    The type is the label of the sentence, in topic or out of it. Raises `InputError` as `from_opinions`.
    """
    return [
        Case(
            str(_field(r, "id")),
            str(r.get("sentence_label", "unlabelled")),
            _field(r, "new_question"),
            (str(_field(r, "answer")),),
            _field(r, "original_question"),
        )
        for r in records
    ]


def _field(record: Mapping[str, Any], name: str) -> Any:
    if name not in record:
        raise InputError(
            f"record {record.get('id', '?')!r} has no field {name!r}; it has {', '.join(record)}"
        )
    return record[name]
