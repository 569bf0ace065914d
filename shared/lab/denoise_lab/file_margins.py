"""Make the margins for pieces of files, the part ``pieces`` of ``scale.json``.

`denoise_lab.default` writes them with the rest. They are calibrated on the questions with
an answer about the files in ``FOLDER/ordinary`` and ``FOLDER/company``, each folder as
often, cut as ``chunker="auto"`` does. A piece is relevant if it holds part of a place
that the answer needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from denoise_core.embedded import DefaultScorer
from denoise_core.end.calibration import calibrate_margins
from denoise_core.end.selection import ScoreCalibration
from denoise_core.protocols import Scorer
from denoise_core.text.documents import DocumentReader
from denoise_core.types import Passage, Span, join_header

ORDINARY, COMPANY = "ordinary files", "company files"
PIECE_RISKS = (0.035, 0.05, 0.07, 0.10, 0.20)
FLOOR_QUANTILE = 0.01  # of the best scores on ordinary files, which vary most
DIGITS = 4


@dataclass(frozen=True)
class FileQuestion:
    """A question with its files' texts by name, and the places that its answer needs."""

    text: str
    files: Mapping[str, str]
    places: Sequence[Span]


def piece_calibration(folder: Path) -> ScoreCalibration:
    """The calibration of the default's scores for pieces of files."""
    scorer = DefaultScorer()
    scored = {}
    for name, questions in (
        (ORDINARY, ordinary_questions(folder / "ordinary")),
        (COMPANY, company_questions(folder / "company")),
    ):
        scored[name] = [score_pieces(scorer, question) for question in questions]
    calibration = calibrate_margins(scored, risks=PIECE_RISKS)
    best_scores = [float(scores.max()) for scores, _ in scored[ORDINARY]]
    floor_score = float(np.quantile(best_scores, FLOOR_QUANTILE))
    rounded_margins = {}
    for risk, margin in calibration.margins.items():
        rounded_margins[risk] = round(margin, DIGITS)
    return replace(
        calibration,
        margins=rounded_margins,
        floor=round(floor_score, DIGITS),
        top_score=round(calibration.top_score, DIGITS),
    )


def score_pieces(
    scorer: Scorer, question: FileQuestion
) -> tuple[np.ndarray, list[bool]]:
    """Scores and labels of the pieces that are scored."""
    passages = []
    for name, text in question.files.items():
        passages.append(Passage(text, name, metadata={"source": name}))
    reader = DocumentReader(passages)
    piece_texts = []
    labels = []
    for passage in passages:
        for piece in reader.chunks_of(passage):
            if piece.text.strip():
                piece_texts.append(join_header(piece.context_text, piece.text))
                labels.append(_holds_place(question, piece.span))
    return scorer.score(question.text, piece_texts), labels


def _holds_place(question: FileQuestion, span: Span) -> bool:
    for place in question.places:
        start = max(place.start, span.start)
        end = min(place.end, span.end)
        is_same_file = place.passage_id == span.passage_id
        if is_same_file and question.files[span.passage_id][start:end].strip():
            return True
    return False


def ordinary_questions(folder: Path) -> list[FileQuestion]:
    questions = []
    for row in read_rows(folder):
        name = row["file"]
        files = {name: (folder / name).read_bytes().decode("utf-8-sig")}
        places = [find_place(files, name, needed) for needed in row["needed"]]
        if places:
            questions.append(FileQuestion(row["question"], files, places))
    return questions


def company_questions(folder: Path) -> list[FileQuestion]:
    questions = []
    for row in read_rows(folder):
        files = {}
        for name in row["documents"]:
            files[name] = (folder / name).read_text("utf-8")
        places = []
        for needed in row["needs"]:
            places.append(find_place(files, needed["file"], needed["text"]))
        if places:
            questions.append(FileQuestion(row["question"], files, places))
    return questions


def find_place(files: Mapping[str, str], name: str, needed_text: str) -> Span:
    start = files[name].index(needed_text)
    return Span(name, start, start + len(needed_text))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    question_lines = (folder / "questions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in question_lines if line.strip()]
