"""The second look of the default: gold kept with and without it, in as much text, and by ``keep="auto"``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded import default_scale
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.evaluate.datasets import parse_cases
from denoise_core.evaluate.metrics import bootstrap_interval
from denoise_core.question import Question
from denoise_lab.experiments import FigureReport
from denoise_lab.experiments.default_choices import ScoredQuestion, score_questions
from denoise_lab.split import FITTING_BELOW, hash_fraction

TWO_STEP_SETS = ("MuSiQue", "HotpotQA", "2Wiki", "twostep")
TEXT_SHARES = (0.3, 0.5)
LEAST_GAIN = 0.03  # on questions of two steps
ALLOWED_LOSS = 0.01  # on others
PassageScores = Sequence[NDArray[np.float32]]  # of each question


def report_second_look(
    report: FigureReport,
    sets: Mapping[str, Sequence[ScoredQuestion]],
    encoder: SentenceEncoder,
) -> None:
    """Report each set, and the half of ``twostep`` on which nothing was chosen if there is data."""
    data_folder = report.data
    all_sets = dict(sets)
    if data_folder is not None and not report.quick:
        file_text = (data_folder / "twostep.jsonl").read_text("utf-8")
        records = [json.loads(line) for line in file_text.splitlines()]
        questions = two_step_questions(records)
        all_sets["twostep"] = score_questions(questions, encoder)
    for set_name, scored_questions in all_sets.items():
        first_scores = []
        boosted_scores = []
        for scored_question in scored_questions:
            scores = scored_question.scores["default"]
            question = scored_question.question
            texts = [passage.text_with_header for passage in question.passages]
            second_scores = encoder.boost_multi_hop(question.text, texts, scores)
            first_scores.append(scores)
            boosted_scores.append(second_scores)
        _report_fixed_text(
            report, set_name, scored_questions, first_scores, boosted_scores
        )
        _report_auto(report, set_name, scored_questions, boosted_scores)


def _report_fixed_text(
    report: FigureReport,
    set_name: str,
    scored_questions: Sequence[ScoredQuestion],
    first_scores: PassageScores,
    boosted_scores: PassageScores,
) -> None:
    least_gain = -ALLOWED_LOSS
    if set_name in TWO_STEP_SETS:
        least_gain = LEAST_GAIN
    for text_share in TEXT_SHARES:
        without = _gold_in_text(scored_questions, first_scores, text_share)
        gain = _gold_in_text(scored_questions, boosted_scores, text_share) - without
        measure = f"{set_name}: gold in {text_share:g} of the text"
        report.row(
            f"{measure}, without a second look",
            float(without.mean()),
            "share",
            interval=bootstrap_interval(without),
        )
        report.row(
            f"{measure}, gain by it",
            float(gain.mean()),
            "share",
            interval=bootstrap_interval(gain),
            at_least=least_gain,
        )


def _report_auto(
    report: FigureReport,
    set_name: str,
    scored_questions: Sequence[ScoredQuestion],
    boosted_scores: PassageScores,
) -> None:
    rule = default_scale().rule()
    gold_shares = []
    text_shares = []
    for scored_question, scores in zip(scored_questions, boosted_scores, strict=True):
        texts = [
            passage.text_with_header for passage in scored_question.question.passages
        ]
        is_kept = rule.choose(scores, texts)
        gold_shares.append(scored_question.gold_share(is_kept))
        text_shares.append(scored_question.text_share(is_kept))
    mean_gold = float(np.mean(gold_shares))
    mean_text = float(np.mean(text_shares))
    measure = "kept, default with a second look"
    report.row(f"{set_name}: gold {measure}", mean_gold, "share")
    report.row(f"{set_name}: text {measure}", mean_text, "share")


def two_step_questions(records: Iterable[Mapping[str, Any]]) -> tuple[Question, ...]:
    """The questions of ``twostep.jsonl`` that nothing was chosen on."""
    labelled_records = []
    for record in records:
        passages = []
        for passage in record["passages"]:
            is_gold = passage["id"] in record["needed"]
            passages.append({**passage, "is_gold": is_gold})
        labelled_records.append({**record, "passages": passages})
    numbered_records = enumerate(labelled_records, 1)
    cases = parse_cases(numbered_records, labelled=True, skip_bad=False)
    held_out = []
    for question in cases.questions:
        if hash_fraction(question.id) >= FITTING_BELOW:
            held_out.append(question)
    return tuple(held_out)


def _gold_in_text(
    scored_questions: Sequence[ScoredQuestion],
    passage_scores: PassageScores,
    text_share: float,
) -> NDArray[np.float64]:
    """By question the gold kept in the best passages that fill ``text_share``, the last of them in part."""
    gold_shares = []
    for scored_question, scores in zip(scored_questions, passage_scores, strict=True):
        ranking = np.argsort(-scores, kind="stable")
        lengths = scored_question.text_lengths[ranking]
        length_before = np.cumsum(lengths) - lengths
        length_left = text_share * lengths.sum() - length_before
        kept_part = np.clip(length_left / np.maximum(lengths, 1), 0, 1)
        is_gold = scored_question.labels[ranking]
        gold_shares.append(float(kept_part[is_gold].mean()))
    return np.array(gold_shares)
