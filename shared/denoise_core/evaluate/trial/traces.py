"""Recorded runs of the loop as questions: what was asked, what the searches found, and what the answer cites.

Files are those of `augmenter.traces.recording.to_lines`, one run after another. The passages that a supported
answer cites are taken for gold: the judgement of whatever judged then, and no person's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from denoise_core.augmenter.answer import Answer, Outcome
from denoise_core.augmenter.traces.recording import from_lines
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import BadRecord
from denoise_core.evaluate.trial.cases import Case, Cases
from denoise_core.question import Question

ABOUT = "questions are recorded runs; gold passages are those that answers judged to be supported cite"


def is_trace(record: Any) -> bool:
    """Whether a record is the first line of a recorded run."""
    return isinstance(record, dict) and record.get("line") == "answer"


def read_traces(path: str | Path) -> Cases:
    """The runs in a file, or in every ``.jsonl`` file of a folder. ``place`` counts them from 1.

    A run that cannot be read, or that found no passage, is left out and named. Raises `InputError` when none is
    left.
    """
    path = Path(path)
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    cases: list[Case] = []
    bad: list[BadRecord] = []
    noted: list[BadRecord] = []
    place = 0
    for file in files:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {error}") from error
        for run in _runs(lines):
            place += 1
            try:
                case = _case(from_lines(run), place)
            except InputError as error:
                bad.append(BadRecord(place, str(error)))
                continue
            cases.append(case)
            if case.gold_from is None:
                noted.append(BadRecord(place, "its answer was not supported or cites nothing: no gold is known"))
    if not cases:
        first = f"; the first: run {bad[0].place}: {bad[0].reason}" if bad else ""
        raise InputError(f"{path}: no recorded run can be used{first}")
    return Cases(tuple(cases), tuple(bad), tuple(noted), (ABOUT,))


def _runs(lines: Iterable[str]) -> Iterator[list[str]]:
    own: list[str] = []
    for line in lines:
        if own and _begins(line):
            yield own
            own = []
        if line.strip():
            own.append(line)
    if own:
        yield own


def _case(answer: Answer, place: int) -> Case:
    memory = answer.memory
    found = {p.id: p for p in (*memory.evidence, *memory.retrieved)}  # as it was found, not as it was denoised
    if not found:
        raise InputError("it found no passage")
    cited = frozenset(p.id for p in answer.citations) & found.keys()
    gold = cited if answer.outcome is Outcome.SUPPORTED else frozenset()
    question = Question(memory.question, tuple(found.values()), gold, id=str(place))
    return Case(question, place, "cited" if gold else None)


def _begins(line: str) -> bool:
    try:
        return is_trace(json.loads(line))
    except (ValueError, RecursionError):
        return False
