"""Answers with labels that others wrote, as a judge sees them; the same for every judge.

A seeded draw puts each case into a half before anything was judged: ``looked`` may be read while a prompt or a
threshold is made, ``unseen`` is only counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _recorded import FOLDER
from harness import json_lines, read_data_set

from denoise_core.types import Passage

GROUNDING_SETS = ("summedits", "wice", "qags")
CLAIM_COUNT = 12  # right ones of a grounding set, and wrong ones
MAX_EVIDENCE = 6000  # characters of evidence of a grounding claim
SHORT_ANSWER_SETS = {
    "nq_gold_distractors20": "NQ",
    "hotpotqa_distractor": "HotpotQA",
    "xquad_en": "XQuAD",
}
RIGHT, WRONG, ABSTAINS, OPEN = "right", "wrong", "abstains", "open"
FORM_LABELS = {"faithful": RIGHT, "unfaithful": WRONG, "abstains": ABSTAINS}
RECORD_LABELS = {"right": RIGHT, "wrong": WRONG, "wrong_label": WRONG}
YES_NO_LABELS = {True: RIGHT, False: WRONG, None: OPEN}


@dataclass(frozen=True)
class Case:
    """An answer to be judged; ``unsupported`` are its words that are marked as not supported."""

    set: str
    id: str
    question: str
    answer: str
    passages: Sequence[Passage]
    label: str
    unsupported: Sequence[str] = ()
    half: str = "looked"


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
        records = read_data_set(data, f"grounding_{name}")
        records = [row for row in records if len(row["evidence"]) <= MAX_EVIDENCE]
        random.Random(29).shuffle(records)
        groups: set[str] = set()
        for is_supported, label in ((True, RIGHT), (False, WRONG)):
            count = 0
            for row in records:
                is_known = row["group"] in groups or row["supported"] != is_supported
                if is_known or count == CLAIM_COUNT:
                    continue
                groups.add(row["group"])
                count += 1
                passages = [Passage(row["evidence"], "e1")]
                yield Case(name, row["id"], "", row["claim"], passages, label)


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
        question = record["question"]
        for kind, label in RECORD_LABELS.items():
            case_id = f"{record['id']}-{kind}"
            yield Case("records", case_id, question, record[kind], passages, label)


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
        passages = []
        for passage_id in draw["passages"]:
            (row,) = [r for r in record["passages"] if r["id"] == passage_id]
            metadata = {"title": row["title"]} if row["title"] else {}
            passages.append(Passage(row["text"], passage_id, metadata=metadata))
        name = SHORT_ANSWER_SETS[draw["set"]]
        question = record["question"]
        for answer, label in ((record["answers"][0], RIGHT), (draw["wrong"], WRONG)):
            case_id = f"{record['id']}-{label}"
            yield Case(name, case_id, question, answer, passages, label)


def _numbered_passages(texts: Sequence[str]) -> list[Passage]:
    return [Passage(text, f"p{n}") for n, text in enumerate(texts, 1)]


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
