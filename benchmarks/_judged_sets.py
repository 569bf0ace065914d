"""Answers with labels by another hand, as the judges are asked about them; the same for every judge.

Each case is in a half by a seeded draw before anything was judged: ``looked`` may be read while a prompt or a
threshold is made, ``unseen`` is only counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from _recorded import FOLDER
from harness import json_lines, read_data_set

from denoise_core.types import Passage

Label = Literal["right", "wrong", "abstains", "open"]
GROUNDING = ("summedits", "wice", "qags")
EACH = 12  # right and wrong claims of a grounding set
LONGEST = 6000  # characters of evidence of a grounding claim
SHORT = {
    "nq_gold_distractors20": "NQ",
    "hotpotqa_distractor": "HotpotQA",
    "xquad_en": "XQuAD",
}


@dataclass(frozen=True)
class Case:
    """``unsupported`` are words of the answer that are marked as not supported."""

    set: str
    id: str
    question: str
    answer: str
    passages: tuple[Passage, ...]
    label: Label
    kind: str = ""
    unsupported: tuple[str, ...] = ()
    half: Literal["looked", "unseen"] = "looked"


def cases(data: Path) -> dict[str, list[Case]]:
    """All cases, set by set: ``grounding``, ``answer_forms``, ``records``, ``yesno``, ``short``."""
    found = {
        "grounding": list(_grounding(data)),
        "answer_forms": list(_forms(data)),
        "records": list(_records(data)),
        "yesno": list(_yesno(data)),
        "short": list(_short(data)),
    }
    return {name: _halved(of) for name, of in found.items()}


def _grounding(data: Path) -> Iterator[Case]:
    for name in GROUNDING:
        records = [
            r
            for r in read_data_set(data, f"grounding_{name}")
            if len(r["evidence"]) <= LONGEST
        ]
        random.Random(29).shuffle(records)
        groups: set[str] = set()
        for supported in (True, False):
            taken = 0
            for r in records:
                if (
                    r["supported"] is supported
                    and r["group"] not in groups
                    and taken < EACH
                ):
                    groups.add(r["group"])
                    taken += 1
                    passages = (Passage(r["evidence"], "e1"),)
                    label: Label = "right" if supported else "wrong"
                    yield Case(
                        name, r["id"], "", r["claim"], passages, label, r["kind"]
                    )


def _forms(data: Path) -> Iterator[Case]:
    labels: dict[str, Label] = {
        "faithful": "right",
        "unfaithful": "wrong",
        "abstains": "abstains",
    }
    for r in json_lines(data / "answer_forms.jsonl"):
        passages = tuple(Passage(t, f"p{n}") for n, t in enumerate(r["passages"], 1))
        name = f"{r['n']}-{r['kind']}"
        yield Case(
            "answer_forms", name, r["question"], r["answer"], passages, labels[r["kind"]], r["form"],
            tuple(r["unsupported"]),
        )  # fmt: skip


def _records(data: Path) -> Iterator[Case]:
    for r in json_lines(data / "records.jsonl"):
        passages = tuple(
            Passage(p["text"], p["id"], metadata=p.get("metadata") or {})
            for p in r["passages"]
        )
        for kind in ("right", "wrong", "wrong_label"):
            label: Label = "right" if kind == "right" else "wrong"
            yield Case(
                "records",
                f"{r['id']}-{kind}",
                r["question"],
                r[kind],
                passages,
                label,
                r["shape"],
            )


def _yesno(data: Path) -> Iterator[Case]:
    labels: dict[bool | None, Label] = {True: "right", False: "wrong", None: "open"}
    for r in json_lines(data / "yesno.jsonl"):
        passages = tuple(Passage(t, f"p{n}") for n, t in enumerate(r["passages"], 1))
        yield Case(
            "yesno",
            r["id"],
            r["question"],
            r["answer"],
            passages,
            labels[r["ok"]],
            r["why"],
        )


def _short(data: Path) -> Iterator[Case]:
    """Short answers: the right one, and a name that stands in a passage that does not hold the answer, as they
    were drawn when the replies were recorded."""
    records = {name: {r["id"]: r for r in read_data_set(data, name)} for name in SHORT}
    for drawn in json_lines(FOLDER / "short.jsonl"):
        r = records[drawn["set"]][drawn["id"]]
        told = {p["id"]: p for p in r["passages"]}
        passages = tuple(
            Passage(
                p["text"], p["id"], metadata={"title": p["title"]} if p["title"] else {}
            )
            for p in (told[i] for i in drawn["passages"])
        )
        yield Case(
            SHORT[drawn["set"]],
            f"{r['id']}-right",
            r["question"],
            r["answers"][0],
            passages,
            "right",
        )
        yield Case(
            SHORT[drawn["set"]],
            f"{r['id']}-wrong",
            r["question"],
            drawn["wrong"],
            passages,
            "wrong",
        )


def _halved(found: Sequence[Case]) -> list[Case]:
    """Half of each set and label is only counted."""
    groups: dict[tuple[str, str], list[int]] = {}
    for n, case in enumerate(found):
        groups.setdefault((case.set, case.label), []).append(n)
    unseen: set[int] = set()
    for key, places in sorted(groups.items()):
        random.Random(str(key)).shuffle(places)
        unseen.update(places[: len(places) // 2])
    return [
        replace(case, half="unseen" if n in unseen else "looked")
        for n, case in enumerate(found)
    ]
