"""A denoiser of one's own: fitted, judged in words, saved and loaded again with one call."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Passage, fit_denoiser, load_denoiser
from denoise_core.embedded import sample_questions
from denoise_core.embedded.fitted import (
    MIN_FLOOR_QUESTIONS,
    evaluate_fit,
    percentile_interval,
)
from denoise_core.end.calibration import required_text_fraction
from denoise_core.question import Question


def few(count=24, passages=6):
    """Questions of the sample with their gold and a few other passages."""
    few_questions = []
    for question in sample_questions()[:count]:
        other_passages = [
            passage for passage in question.passages if passage.id not in question.gold
        ][: passages - 1]
        chosen_passages = [
            passage
            for passage in question.passages
            if passage.id in question.gold or passage in other_passages
        ]
        few_questions.append(
            Question(
                question.text,
                tuple(chosen_passages),
                question.gold,
                question.answers,
                question.id,
            )
        )
    return few_questions


@pytest.fixture(scope="module")
def fitted_denoiser():
    return fit_denoiser(few())


def test_a_folder_is_a_denoiser(fitted_denoiser, tmp_path):
    folder = fitted_denoiser.save(tmp_path / "mine")
    assert "Relevant" not in (folder / "README.md").read_text()
    assert str(fitted_denoiser.evaluation) in (folder / "README.md").read_text()
    question = few(1)[0]
    one, two = load_denoiser(folder), load_denoiser(folder, keep=2)
    result = one.denoise(question.text, question.passages)
    assert question.gold <= {passage.id for passage in result.passages}
    assert "your questions" in result.trace.events[0].effect.guarantee
    assert len(two.denoise(question.text, question.passages).passages) == 2


def test_the_folder_says_how_much_text_is_needed(fitted_denoiser, tmp_path):
    folder = fitted_denoiser.save(tmp_path / "mine")
    verdict = json.loads((folder / "denoiser.json").read_text())["verdict"]
    assert list(verdict["text_needed"]) == [
        "fitted",
        "default",
        "cosine",
        "BM25",
        "no question",
    ]
    shares = [value for value, _, _ in verdict["text_needed"]["fitted"]]
    assert shares == sorted(shares)  # for .90, .95 and .99 of the gold
    assert "| fitted | " in (folder / "README.md").read_text()


def test_weights_are_not_negative_and_the_verdict_is_of_questions_not_fitted_on(
    fitted_denoiser,
):
    assert min(fitted_denoiser.stack.weight) >= 0
    assert fitted_denoiser.evaluation.questions == 24
    assert fitted_denoiser.evaluation.text_needed["fitted"][0][0] < 0.5


def test_shuffled_labels_are_called_no_better():
    rng = random.Random(0)
    shuffled = [
        replace(question, gold=frozenset([rng.choice(question.passages).id]))
        for question in few()
    ]
    assert fit_denoiser(shuffled).evaluation.outcome != "better"


def test_the_three_words():
    labels, groups = (
        np.tile([True, False, False, False], 60),
        np.repeat(np.arange(60), 4),
    )
    good, bad = labels.astype(np.float32), (~labels).astype(np.float32)

    def of(fitted_denoiser, cosine):
        return evaluate_fit(
            {"fitted": fitted_denoiser, "cosine": cosine},
            labels,
            np.full(240, 400.0),
            groups,
        )

    better = of(good, bad)
    assert (better.outcome, of(bad, good).outcome) == ("better", "worse")
    assert (
        "Better, against cosine: 90% of the relevant passages are kept in 0.2"
        in str(better)
    )
    assert (
        better.tokens_per_question,
        better.relevant_text_share,
        better.count_saved_tokens("cosine", 0.99),
    ) == (
        400,
        0.25,
        0,
    )
    assert of(good, good).outcome == "no difference found"
    assert "No difference found, against cosine" in str(of(good, good))


@given(st.integers(0, 1000))
def test_fits_that_share_questions_are_judged_with_a_wider_interval(seed):
    samples = 0.5 + 0.1 * np.random.default_rng(seed).normal(size=500)
    samples_row = np.array([samples.mean(), *samples])
    ends = [
        percentile_interval(samples_row),
        *(percentile_interval(samples_row, count) for count in (10, 5, 2)),
    ]
    for (_, low, high), (_, lower, higher) in pairwise(ends):
        assert lower < low < high < higher


def kept_at(scores, gold, sizes, groups, margin):
    """Gold and text kept within one margin of each question's best, by hand."""
    kept_rows = []
    for question in sorted(set(groups)):
        in_question = groups == question
        kept_mask = (
            scores[in_question]
            >= scores[in_question].max() - margin * np.log1p(in_question.sum()) - 1e-9
        )
        kept_rows.append(
            (
                kept_mask[gold[in_question]].mean(),
                sizes[in_question][kept_mask].sum() / sizes[in_question].sum(),
            )
        )
    return np.mean(kept_rows, axis=0)


@given(st.integers(0, 1000), st.sampled_from([0.5, 0.9, 1.0]))
@settings(max_examples=20)
def test_the_text_needed_is_that_of_the_narrowest_margin_that_keeps_the_gold(
    seed, fraction
):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(12), rng.integers(2, 7, 12))
    count = len(groups)
    scores, sizes = rng.integers(0, 6, count).astype(float), rng.uniform(1, 9, count)
    gold = rng.random(count) < 0.4
    gold[np.unique(groups, return_index=True)[1]] = True
    needed_text = required_text_fraction(scores, gold, sizes, groups, fraction=fraction)
    margins = np.arange(0, 6.01, 1.0)[:, None] / np.log1p(np.bincount(groups))[None]
    kept_rows = [
        kept_at(scores, gold, sizes, groups, margin)
        for margin in sorted(set(margins.ravel()))
    ]
    assert needed_text[0] == pytest.approx(
        next(text for kept_mask, text in kept_rows if kept_mask >= fraction - 1e-9)
    )
    assert needed_text.shape == (501,)
    assert (
        needed_text
        == required_text_fraction(scores, gold, sizes, groups, fraction=fraction)
    ).all()


def test_few_questions_do_not_say_that_nothing_is_relevant(fitted_denoiser, tmp_path):
    """A folder of an earlier release may hold a floor from as few."""
    folder = fitted_denoiser.save(tmp_path / "mine")
    manifest = json.loads((folder / "denoiser.json").read_text())
    assert manifest["scale"]["floor"] is None
    unrelated = [Passage("Bread is cheap.", "a"), Passage("It rained.", "b")]
    for floor in (None, 1e6):
        manifest["scale"]["floor"] = floor
        (folder / "denoiser.json").write_text(json.dumps(manifest))
        result = load_denoiser(folder).denoise("Who built the tower?", unrelated)
        assert result.relevant is None
    manifest["scale"]["questions"] = MIN_FLOOR_QUESTIONS
    (folder / "denoiser.json").write_text(json.dumps(manifest))
    result = load_denoiser(folder).denoise("Who built the tower?", unrelated)
    assert result.relevant is False


def test_slips_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match="expected 20 or more"):
        fit_denoiser(few(3))
    with pytest.raises(InputError, match="holds no denoiser"):
        load_denoiser(tmp_path)
    (tmp_path / "denoiser.json").write_text(json.dumps({"format": "something else"}))
    with pytest.raises(InputError, match="not a denoiser of this release"):
        load_denoiser(tmp_path)


def test_relevant_passages_with_a_style_of_their_own_are_warned_of(fitted_denoiser):
    assert not any(
        "never saw the questions" in warning
        for warning in fitted_denoiser.evaluation.warnings
    )
    rng = random.Random(1)
    words = [
        "amber",
        "basalt",
        "cedar",
        "delta",
        "ember",
        "fjord",
        "grove",
        "heron",
        "iris",
        "juniper",
    ]
    questions = []
    for count in range(24):
        gold = Passage(
            f"What this is about: the {rng.choice(words)}. This is what it is all about.",
            "g",
        )
        other_passages = [
            Passage(" ".join(rng.choices(words, k=6)).capitalize() + ".", f"o{index}")
            for index in range(5)
        ]
        questions.append(
            Question(
                f"Which {rng.choice(words)} {count}?",
                (*other_passages, gold),
                frozenset({"g"}),
            )
        )
    new_fit = fit_denoiser(questions, keep=0.3)
    assert new_fit.evaluation.text_needed["no question"][0][0] < 0.3
    assert any(
        "never saw the questions" in warning for warning in new_fit.evaluation.warnings
    )
    assert "Warning: a fit that never saw the questions" in new_fit.card()


def test_an_earlier_fit_is_overwritten_only_when_asked_to(fitted_denoiser, tmp_path):
    folder = fitted_denoiser.save(tmp_path / "mine")
    before = (folder / "denoiser.json").read_bytes()
    with pytest.raises(InputError, match="holds an earlier fit"):
        replace(fitted_denoiser, keep=3).save(folder)
    assert (folder / "denoiser.json").read_bytes() == before
    replace(fitted_denoiser, keep=3).save(folder, overwrite=True)
    assert json.loads((folder / "denoiser.json").read_text())["keep"] == 3


def test_a_risk_is_calibrated_on_questions_apart_and_is_the_folders_own(tmp_path):
    other_passages = [
        replace(question, text=f"Please: {question.text}") for question in few(22)
    ]
    new_fit = fit_denoiser(few(), calibration=other_passages, risk=0.15)
    assert (new_fit.scale.questions, 0.15 in new_fit.scale.margins) == (
        22,
        True,
    )
    loaded_denoiser = load_denoiser(new_fit.save(tmp_path / "mine"))
    assert loaded_denoiser.rule.risk == 0.15
    with pytest.raises(InputError, match="keep them apart"):
        fit_denoiser(few(), calibration=few(20))
    with pytest.raises(InputError, match="needs 99 calibration questions"):
        fit_denoiser(few(), risk=0.01)
