"""The margins for pieces of files come from the pieces that hold what an answer needs."""

import pytest
from json_files import write_json_lines

from denoise_core.testing import FunctionScorer
from denoise_lab.file_margins import (
    read_company_questions,
    read_ordinary_questions,
    score_pieces,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hall.md").write_text(
        "# Hall\n\nThe hall was built in 1903.\n\nThe roof is of slate.\n"
    )
    (tmp_path / "pool.md").write_text("# Pool\n\nThe pool opens at nine.\n")
    return tmp_path


class LookupScorer(FunctionScorer):
    def question_kind(self, query):
        return "lookup"


def relevant_pieces(question):
    piece_texts = []
    scorer = LookupScorer(lambda query, text: piece_texts.append(text) or 0.0)
    scores, labels = score_pieces(scorer, question)
    assert len(scores) == len(labels) == len(piece_texts)
    return [text for text, label in zip(piece_texts, labels, strict=True) if label]


def test_a_piece_that_holds_a_needed_place_is_relevant(folder):
    write_json_lines(
        folder / "questions.jsonl",
        {"file": "hall.md", "question": "Since when?", "needed": ["in 1903"]},
        {"file": "hall.md", "question": "Who built it?", "needed": []},
    )
    (question,) = read_ordinary_questions(folder)
    (piece,) = relevant_pieces(question)
    assert piece.strip() == "# Hall\nThe hall was built in 1903."


def test_places_of_several_files_count(folder):
    place = {"file": "pool.md", "text": "opens at nine"}
    other_place = {"file": "hall.md", "text": "slate"}
    record = {
        "question": "When, and what of?",
        "documents": ["hall.md", "pool.md"],
        "needs": [place, other_place],
    }
    write_json_lines(folder / "questions.jsonl", record)
    (question,) = read_company_questions(folder)
    assert len(relevant_pieces(question)) == 2
