"""The questions on which nothing is tuned name places that their files hold exactly once."""

import json
from collections import Counter

import pytest
from code_measures import ROOT

from denoise_core.embedded import sample_folder

DATA = ROOT / "benchmarks" / "data"


@pytest.mark.parametrize(
    ("folder", "files_folder", "count"),
    [
        (DATA / "unseen", sample_folder(), 60),
        (DATA / "depot", DATA / "depot", 20),
    ],
)
def test_each_place_occurs_once_in_a_file_that_is_given(folder, files_folder, count):
    question_lines = (folder / "questions.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in question_lines]
    kinds = Counter(row["type"] for row in rows)
    assert kinds.total() == count
    assert len({row["question"] for row in rows}) == count
    for row in rows:
        is_absent = row["type"] in ("unanswerable_on_topic", "off_topic")
        assert bool(row["needs"] and row["identity"]) is not is_absent
        for place in [*row["needs"], *row["identity"]]:
            assert place["file"] in row["documents"]
            text = (files_folder / place["file"]).read_text("utf-8")
            assert text.count(place["text"]) == 1, place
