"""On company files `evaluate` finds what a benchmark of its own finds: the default keeps more than cosine."""

import json
from pathlib import Path

from denoise_core.embedded import sample_folder
from denoise_core.evaluate.comparison import evaluate
from denoise_core.evaluate.comparison.figures import NEEDED_KEPT
from denoise_core.evaluate.comparison.setting import STANDARD_STRATEGIES

FOLDER = Path(__file__).parents[3] / "benchmarks" / "data" / "unseen"
QUESTION_COUNT = 4


def company_record(row):
    """A question with its files whole; it needs the facts and what says whose they are."""
    needed_places = [*row["needs"], *row["identity"]]
    files = [(sample_folder() / name).read_text("utf-8") for name in row["documents"]]
    return {
        "question": row["question"],
        "passages": files,
        "needs": [place["text"] for place in needed_places],
    }


def test_the_default_is_ahead_of_cosine_and_neither_is_recommended_below_the_bar():
    lines = (FOLDER / "questions.jsonl").read_text("utf-8").splitlines()
    rows = map(json.loads, lines)
    records = [company_record(row) for row in rows if row["needs"]]
    compared = [s for s in STANDARD_STRATEGIES if s.name in ("default", "cosine")]
    evaluation = evaluate(records[:QUESTION_COUNT], compared)
    (difference,) = [t for t in evaluation.comparisons if t.measure == NEEDED_KEPT]
    assert (difference.first, difference.second) == ("default", "cosine")
    assert difference.is_significant
    recommended = evaluation.figures_for(evaluation.recommendation.name)
    assert recommended.needed_kept.value >= 0.95
