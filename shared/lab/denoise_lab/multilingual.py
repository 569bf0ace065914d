"""Make what ships for `MultilingualScorer`: the margins of its cosine, and the floor.

    python -m denoise_lab.multilingual --data FOLDER [--limit N]

``FOLDER`` holds files of `split.SETS` and ``languages``, with XQuAD in the languages of
`experiments.languages.CALIBRATION_FILES`; none of them is German, Spanish or French, which are measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from denoise_core._files import write_whole
from denoise_core.embedded.default import MultilingualScorer
from denoise_core.end.calibration import FLOOR_MISS_RATE, calibrate_margins
from denoise_core.end.selection import ScoreCalibration
from denoise_core.question import Question
from denoise_lab.default import HERE
from denoise_lab.experiments.languages import CALIBRATION_FILES, language_questions
from denoise_lab.split import NQ, XQUAD, halves

SCALE_FILE = "multilingual_scale.json"
ENGLISH_SETS = (NQ, "HotpotQA", "MuSiQue", "2Wiki", XQUAD)
LIMIT = 80
# Of each language: their few paragraphs are embedded once for all questions.
LANGUAGE_LIMIT = 40
ARTICLES = 4


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with the sets' files"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=LIMIT,
        help="at most so many questions of each English set",
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, help="folder to write the scale to"
    )
    given = parser.parse_args(argv)
    sets = {}
    for name in ENGLISH_SETS:
        sets[name], _ = halves(given.data, name, given.limit)
    for language, file_name in CALIBRATION_FILES.items():
        path = given.data / "languages" / file_name
        sets[f"{XQUAD}, {language}"] = language_questions(
            path, LANGUAGE_LIMIT, fitting=True, articles=ARTICLES
        )
    scale = multilingual_margins(sets)
    scale_text = json.dumps(scale.to_dict(), indent=1)
    write_whole(given.out / SCALE_FILE, scale_text + "\n")


def multilingual_margins(sets: Mapping[str, Sequence[Question]]) -> ScoreCalibration:
    """The calibration of the scorer's cosine on questions by set, each set as often."""
    scorer = MultilingualScorer()
    scored = {}
    for name, questions in sets.items():
        scored_lists = []
        for question in questions:
            texts = [passage.text_with_header for passage in question.passages]
            scored_lists.append((scorer.score(question.text, texts), question.labels))
        scored[name] = scored_lists
    return calibrate_margins(scored, miss_rate=FLOOR_MISS_RATE)


if __name__ == "__main__":
    main()
