"""Make the margins for pieces of files: the part ``pieces`` of ``scale.json``.

`denoise_lab.default` writes them with the rest. They are calibrated on the questions with
an answer about the files in ``FOLDER/ordinary`` and ``FOLDER/company``, cut as
``chunker="auto"`` does; both folders count the same. A piece is relevant if it holds part of
a span that the answer needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from denoise_core.embedded import DefaultScorer
from denoise_core.end.calibration import calibrate_margins
from denoise_core.end.selection import ScoreCalibration, score_distances
from denoise_core.evaluate.datasets import read_records
from denoise_core.text.documents import DocumentReader
from denoise_core.types import Passage, Span, join_header

ORDINARY, COMPANY = "ordinary files", "company files"
PIECE_RISKS = (0.035, 0.05, 0.06, 0.10, 0.20)
FLOOR_QUANTILE = 0.01  # of the best scores on ordinary files, which vary most
DIGITS = 4


@dataclass(frozen=True)
class FileQuestion:
    """A question with its files' texts by name, and the spans of them that its answer needs."""

    text: str
    files: Mapping[str, str]
    needed_spans: Sequence[Span]


def calibrate_pieces(folder: Path) -> ScoreCalibration:
    """Calibrate the default's scores for pieces of files."""
    scorer = DefaultScorer()
    scored_sets = {}
    for name, questions in (
        (ORDINARY, read_ordinary_questions(folder / "ordinary")),
        (COMPANY, read_company_questions(folder / "company")),
    ):
        scored_sets[name] = [score_pieces(scorer, question) for question in questions]
    calibration = calibrate_margins(scored_sets, risks=PIECE_RISKS)
    best_scores = [float(scores.max()) for scores, _ in scored_sets[ORDINARY]]
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
    scorer: DefaultScorer, question: FileQuestion
) -> tuple[np.ndarray, list[bool]]:
    """Return the labels of the question's pieces that are not blank, and scores as ``keep="auto"`` compares them.

    A piece has the best score less its distance (`score_distances`), so that the margins are
    those of the rule as a whole.
    """
    passages = []
    for name, text in question.files.items():
        passages.append(Passage(text, name, metadata={"source": name}))
    reader = DocumentReader(passages)
    piece_texts = []
    documents = []
    labels = []
    for number, passage in enumerate(passages):
        for piece in reader.chunks_of(passage):
            if piece.text.strip():
                piece_texts.append(join_header(piece.context_text, piece.text))
                documents.append(number)
                labels.append(_holds_needed_span(question, piece.span))
    scores = scorer.score(question.text, piece_texts)
    has_one_answer = scorer.question_kind(question.text) == "lookup"
    distances = score_distances(scores, documents, has_one_answer)
    return (scores.max() - distances).astype(np.float32), labels


def _holds_needed_span(question: FileQuestion, span: Span) -> bool:
    for needed_span in question.needed_spans:
        start = max(needed_span.start, span.start)
        end = min(needed_span.end, span.end)
        is_same_file = needed_span.passage_id == span.passage_id
        if is_same_file and question.files[span.passage_id][start:end].strip():
            return True
    return False


def read_ordinary_questions(folder: Path) -> list[FileQuestion]:
    """Questions with an answer, each about one file."""
    questions = []
    for _, row in read_records(folder / "questions.jsonl"):
        name = row["file"]
        files = {name: (folder / name).read_bytes().decode("utf-8-sig")}
        spans = [find_span(files, name, text) for text in row["needed"]]
        if spans:
            questions.append(FileQuestion(row["question"], files, spans))
    return questions


def read_company_questions(folder: Path) -> list[FileQuestion]:
    """Questions with an answer, each about several files."""
    questions = []
    for _, row in read_records(folder / "questions.jsonl"):
        files = {}
        for name in row["documents"]:
            files[name] = (folder / name).read_text("utf-8")
        spans = []
        for needed_text in row["needs"]:
            spans.append(find_span(files, needed_text["file"], needed_text["text"]))
        if spans:
            questions.append(FileQuestion(row["question"], files, spans))
    return questions


def find_span(files: Mapping[str, str], name: str, needed_text: str) -> Span:
    """The first place of a text in a file. Raises `ValueError` if the file does not hold it."""
    start = files[name].index(needed_text)
    return Span(name, start, start + len(needed_text))
