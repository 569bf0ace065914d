"""Answers with labels that others wrote, as a judge sees them; the same for every judge.

A seeded draw puts each case into a half before anything was judged: ``looked`` may be read while a prompt or a
threshold is made, ``unseen`` is only counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from _recorded import FOLDER
from harness import json_lines, read_data_set

from denoise_core.types import Passage

Label = Literal["right", "wrong", "abstains", "open"]
GROUNDING_SETS = ("summedits", "wice", "qags")
CLAIM_COUNT = 12  # right ones of a grounding set, and wrong ones
MAX_EVIDENCE = 6000  # characters of evidence of a grounding claim
SHORT_ANSWER_SETS = {
    "nq_gold_distractors20": "NQ",
    "hotpotqa_distractor": "HotpotQA",
    "xquad_en": "XQuAD",
}
FORM_LABELS: Mapping[str, Label] = {
    "faithful": "right",
    "unfaithful": "wrong",
    "abstains": "abstains",
}
RECORD_LABELS: Mapping[str, Label] = {
    "right": "right",
    "wrong": "wrong",
    "wrong_label": "wrong",
}
YES_NO_LABELS: Mapping[bool | None, Label] = {
    True: "right",
    False: "wrong",
    None: "open",
}


@dataclass(frozen=True)
class Case:
    """An answer to be judged; ``unsupported`` are its words that are marked as not supported."""

    set: str
    id: str
    question: str
    answer: str
    passages: tuple[Passage, ...]
    label: Label
    unsupported: tuple[str, ...] = ()
    half: Literal["looked", "unseen"] = "looked"


def read_cases(data: Path) -> list[Case]:
    """Read the cases of all sets, each with its half."""
    cases: list[Case] = []
    for read_set in (
        _read_grounding,
        _read_answer_forms,
        _read_records,
        _read_yes_no,
        _read_short_answers,
    ):
        cases += _halve(list(read_set(data)))
    return cases


def _read_grounding(data: Path) -> Iterator[Case]:
    for name in GROUNDING_SETS:
        records = []
        for record in read_data_set(data, f"grounding_{name}"):
            if len(record["evidence"]) <= MAX_EVIDENCE:
                records.append(record)
        random.Random(29).shuffle(records)
        groups: set[str] = set()
        for is_supported in (True, False):
            label: Label = "right" if is_supported else "wrong"
            count = 0
            for record in records:
                is_chosen = (
                    record["supported"] is is_supported
                    and record["group"] not in groups
                    and count < CLAIM_COUNT
                )
                if is_chosen:
                    groups.add(record["group"])
                    count += 1
                    passages = (Passage(record["evidence"], "e1"),)
                    claim = record["claim"]
                    yield Case(name, record["id"], "", claim, passages, label)


def _read_answer_forms(data: Path) -> Iterator[Case]:
    for record in json_lines(data / "answer_forms.jsonl"):
        yield Case(
            "answer_forms",
            f"{record['n']}-{record['kind']}",
            record["question"],
            record["answer"],
            _numbered_passages(record["passages"]),
            FORM_LABELS[record["kind"]],
            tuple(record["unsupported"]),
        )


def _read_records(data: Path) -> Iterator[Case]:
    for record in json_lines(data / "records.jsonl"):
        passages = []
        for row in record["passages"]:
            metadata = row.get("metadata") or {}
            passages.append(Passage(row["text"], row["id"], metadata=metadata))
        for kind, label in RECORD_LABELS.items():
            case_id = f"{record['id']}-{kind}"
            answer = record[kind]
            yield Case(
                "records", case_id, record["question"], answer, tuple(passages), label
            )


def _read_yes_no(data: Path) -> Iterator[Case]:
    for record in json_lines(data / "yesno.jsonl"):
        yield Case(
            "yesno",
            record["id"],
            record["question"],
            record["answer"],
            _numbered_passages(record["passages"]),
            YES_NO_LABELS[record["ok"]],
        )


def _read_short_answers(data: Path) -> Iterator[Case]:
    """Read right answers, and names from a passage without the answer, as drawn when replies were recorded."""
    records: dict[tuple[str, str], dict[str, Any]] = {}
    for file_name in SHORT_ANSWER_SETS:
        for record in read_data_set(data, file_name):
            records[file_name, record["id"]] = record
    for draw in json_lines(FOLDER / "short.jsonl"):
        record = records[draw["set"], draw["id"]]
        rows = {row["id"]: row for row in record["passages"]}
        passages = []
        for passage_id in draw["passages"]:
            title = rows[passage_id]["title"]
            metadata = {"title": title} if title else {}
            text = rows[passage_id]["text"]
            passages.append(Passage(text, passage_id, metadata=metadata))
        name = SHORT_ANSWER_SETS[draw["set"]]
        right = Case(
            name,
            f"{record['id']}-right",
            record["question"],
            record["answers"][0],
            tuple(passages),
            "right",
        )
        yield right
        yield replace(
            right, id=f"{record['id']}-wrong", answer=draw["wrong"], label="wrong"
        )


def _numbered_passages(texts: Sequence[str]) -> tuple[Passage, ...]:
    return tuple(Passage(text, f"p{n}") for n, text in enumerate(texts, 1))


def _halve(cases: list[Case]) -> list[Case]:
    """Put one half of each set and label into ``unseen``."""
    positions_by_group: dict[tuple[str, str], list[int]] = {}
    for position, case in enumerate(cases):
        positions_by_group.setdefault((case.set, case.label), []).append(position)
    for group, positions in sorted(positions_by_group.items()):
        random.Random(str(group)).shuffle(positions)
        for position in positions[: len(positions) // 2]:
            cases[position] = replace(cases[position], half="unseen")
    return cases
