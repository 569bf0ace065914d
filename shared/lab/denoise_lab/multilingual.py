"""Make the data that ships for `MultilingualScorer`: the margins of its cosine, and the floor.

    python -m denoise_lab.multilingual --data FOLDER [--limit N]

``FOLDER`` holds files of `split.SETS` and ``languages``, with XQuAD in the languages of
`experiments.languages.CALIBRATION_FILES`; none of them is German, Spanish or French, which are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from denoise_core.embedded.default import MultilingualScorer
from denoise_core.end.calibration import FLOOR_MISS_RATE, calibrate_margins
from denoise_core.end.selection import ScoreCalibration
from denoise_core.question import Question
from denoise_lab.experiments.languages import CALIBRATION_FILES, language_questions
from denoise_lab.shipped_data import make_parser, write_record
from denoise_lab.split import NQ, XQUAD, read_halves

SCALE_FILE = "multilingual_scale.json"
ENGLISH_SETS = (NQ, "HotpotQA", "MuSiQue", "2Wiki", XQUAD)
QUESTION_LIMIT = 80
# Of each language: their few paragraphs are embedded once for all questions.
LANGUAGE_LIMIT = 40
ARTICLE_COUNT = 4


def main(argv: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--limit",
        type=int,
        default=QUESTION_LIMIT,
        help="at most so many questions of each English set",
    )
    options = parser.parse_args(argv)
    sets = {}
    for name in ENGLISH_SETS:
        sets[name], _ = read_halves(options.data, name, options.limit)
    for language, file_name in CALIBRATION_FILES.items():
        path = options.data / "languages" / file_name
        sets[f"{XQUAD}, {language}"] = language_questions(
            path, LANGUAGE_LIMIT, for_fitting=True, article_count=ARTICLE_COUNT
        )
    scale = calibrate_multilingual(sets)
    write_record(options.out / SCALE_FILE, scale.to_dict())


def calibrate_multilingual(sets: Mapping[str, Sequence[Question]]) -> ScoreCalibration:
    """Calibrate the scorer's cosine on questions by set; each set counts the same."""
    scorer = MultilingualScorer()
    scored_sets = {}
    for name, questions in sets.items():
        scored_questions = []
        for question in questions:
            texts = [passage.text_with_header for passage in question.passages]
            scores = scorer.score(question.text, texts)
            scored_questions.append((scores, question.labels))
        scored_sets[name] = scored_questions
    return calibrate_margins(scored_sets, miss_rate=FLOOR_MISS_RATE)


if __name__ == "__main__":
    main()
