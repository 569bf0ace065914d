"""Cases: a question as a person asked it, and the same without distraction for the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from denoise_core.errors import InputError
from denoise_core.types import Passage


@dataclass(frozen=True, slots=True)
class Case:
    """One question of a protocol.

    Attributes:
        id: Its id.
        kind: Its type, by which tables are broken down.
        question: The question as it is asked, with an opinion or another distraction.
        gold: The accepted answers.
        clean_question: The question without distraction, which the oracle is asked.
        passages: The passages, with distractors.
        clean_passages: The passages without distractors, which the oracle reads.
    """

    id: str
    kind: str
    question: str
    gold: tuple[str, ...]
    clean_question: str
    passages: tuple[Passage, ...] = ()
    clean_passages: tuple[Passage, ...] = ()


def cases_from_opinions(records: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Questions with a suggested answer, in the shape of SycophancyEval.

    Args:
        records: Fields ``id, prompt, question, opinion_type, correct_answer``, and
            ``correct_aliases`` if there are more accepted answers. Records without a single
            ``prompt`` (whole chats) are left out.

    Raises:
        InputError: A record lacks a field.
    """
    cases = []
    for record in records:
        prompt_text = _require_field(record, "prompt")
        if prompt_text is None:
            continue
        gold = record.get("correct_aliases")
        if not gold:
            gold = [_require_field(record, "correct_answer")]
        case = Case(
            record["id"],
            _require_field(record, "opinion_type"),
            prompt_text,
            tuple(gold),
            _require_field(record, "question"),
        )
        cases.append(case)
    return cases


def cases_from_gsm(records: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Word problems with an irrelevant sentence, in the shape of GSM-IC.

    Args:
        records: Fields ``id, new_question, original_question, answer``. A case's kind is
            ``sentence_label``: whether the sentence is on the topic.

    Raises:
        InputError: A record lacks a field.
    """
    cases = []
    for record in records:
        case = Case(
            str(_require_field(record, "id")),
            str(record.get("sentence_label", "unlabelled")),
            _require_field(record, "new_question"),
            (str(_require_field(record, "answer")),),
            _require_field(record, "original_question"),
        )
        cases.append(case)
    return cases


def _require_field(record: Mapping[str, Any], name: str) -> Any:
    if name not in record:
        raise InputError(
            f"record {record.get('id', '?')!r} has no field {name!r}; it has {', '.join(record)}"
        )
    return record[name]
