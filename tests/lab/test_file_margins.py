"""The margins for pieces of files come from the pieces that hold what an answer needs."""

import json

import pytest

from denoise_core.testing import FunctionScorer
from denoise_lab.file_margins import (
    read_company_questions,
    read_ordinary_questions,
    score_pieces,
)

HALL = "# Hall\n\nThe hall was built in 1903.\n\nThe roof is of slate.\n"
POOL = "# Pool\n\nThe pool opens at nine.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hall.md").write_text(HALL)
    (tmp_path / "pool.md").write_text(POOL)
    return tmp_path


def write_questions(folder, rows):
    lines = [json.dumps(row) for row in rows]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n")


def relevant_pieces(question):
    piece_texts = []
    scorer = FunctionScorer(lambda query, text: piece_texts.append(text) or 0.0)
    scores, labels = score_pieces(scorer, question)
    assert len(scores) == len(labels) == len(piece_texts)
    return [text for text, label in zip(piece_texts, labels, strict=True) if label]


def test_a_piece_that_holds_a_needed_place_is_relevant(folder):
    write_questions(
        folder,
        [
            {"file": "hall.md", "question": "Since when?", "needed": ["in 1903"]},
            {"file": "hall.md", "question": "Who built it?", "needed": []},
        ],
    )
    (question,) = read_ordinary_questions(folder)
    (piece,) = relevant_pieces(question)
    assert piece.strip() == "# Hall\nThe hall was built in 1903."


def test_places_of_several_files_count(folder):
    place = {"file": "pool.md", "text": "opens at nine"}
    other_place = {"file": "hall.md", "text": "slate"}
    write_questions(
        folder,
        [
            {
                "question": "When, and what of?",
                "documents": ["hall.md", "pool.md"],
                "needs": [place, other_place],
            }
        ],
    )
    (question,) = read_company_questions(folder)
    assert len(relevant_pieces(question)) == 2
