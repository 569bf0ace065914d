"""The questions on which nothing is tuned name places that their files hold exactly once."""

import json
from collections import Counter
from pathlib import Path

from denoise_core.embedded import sample_folder

FOLDER = Path(__file__).parents[1] / "benchmarks" / "data" / "unseen"


def test_each_place_occurs_once_in_a_file_that_is_given():
    question_lines = (FOLDER / "questions.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in question_lines]
    kinds = Counter(row["type"] for row in rows)
    assert kinds.total() == 60
    assert len({row["question"] for row in rows}) == 60
    for row in rows:
        is_absent = row["type"] in ("unanswerable_on_topic", "off_topic")
        assert bool(row["needs"] and row["identity"]) is not is_absent
        for place in [*row["needs"], *row["identity"]]:
            assert place["file"] in row["documents"]
            text = (sample_folder() / place["file"]).read_text("utf-8")
            assert text.count(place["text"]) == 1, place
