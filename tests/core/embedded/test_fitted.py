"""A denoiser of one's own: fitted, judged in words, saved and loaded again with one call."""

import json
import random
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readings import short_questions

from denoise_core import InputError, Passage, fit_denoiser, load_denoiser
from denoise_core.embedded.fitted import (
    MIN_FLOOR_QUESTIONS,
    evaluate_fit,
    percentile_interval,
)
from denoise_core.end.calibration import required_text_fraction
from denoise_core.errors import MissingExtra

QUESTIONS = short_questions(24, 5, 200)
UNRELATED = [Passage("Bread is cheap.", "a"), Passage("It rained.", "b")]


@pytest.fixture(scope="module")
def fitted_denoiser():
    return fit_denoiser(QUESTIONS)


@pytest.fixture
def folder(fitted_denoiser, tmp_path):
    return fitted_denoiser.save(tmp_path / "mine")


def test_a_folder_is_a_denoiser(folder):
    question = QUESTIONS[0]
    one, two = load_denoiser(folder), load_denoiser(folder, keep=2)
    result = one.denoise(question.text, question.passages)
    assert question.gold <= {passage.id for passage in result.passages}
    assert "your questions" in result.trace.events[0].effect.guarantee
    assert len(two.denoise(question.text, question.passages).passages) == 2


def test_the_folder_says_how_much_text_is_needed(fitted_denoiser, folder):
    manifest = json.loads((folder / "denoiser.json").read_text())
    needed = manifest["verdict"]["text_needed"]
    assert list(needed) == ["fitted", "default", "cosine", "BM25"]
    shares = [value for value, _, _ in needed["fitted"]]
    assert shares == sorted(shares)  # for .90, .95 and .99 of the gold
    assert shares[0] < 0.5
    card = (folder / "README.md").read_text()
    assert str(fitted_denoiser.evaluation) in card
    assert "| fitted | " in card
    assert min(fitted_denoiser.stack.weight) >= 0
    assert fitted_denoiser.evaluation.questions == len(QUESTIONS)


def test_shuffled_labels_are_called_no_better():
    rng = random.Random(0)
    shuffled = []
    for question in QUESTIONS:
        gold = frozenset([rng.choice(question.passages).id])
        shuffled.append(replace(question, gold=gold))
    assert fit_denoiser(shuffled).evaluation.outcome != "better"


def test_the_three_words():
    labels, groups = np.arange(240) % 4 == 0, np.arange(240) // 4
    good, bad = np.float32(labels), np.float32(~labels)

    def judge(fitted, cosine):
        scores = {"fitted": fitted, "cosine": cosine}
        return evaluate_fit(scores, labels, np.full(240, 400.0), groups)

    better, equal = judge(good, bad), judge(good, good)
    assert (better.outcome, judge(bad, good).outcome) == ("better", "worse")
    kept = "90% of the relevant passages are kept in 0.2"
    assert f"Better, against cosine: {kept}" in str(better)
    assert equal.outcome == "no difference found"
    assert "No difference found, against cosine" in str(equal)


@given(st.integers(0, 1000))
def test_fits_that_share_questions_are_judged_with_a_wider_interval(seed):
    samples = 0.5 + 0.1 * np.random.default_rng(seed).normal(size=500)
    samples = np.array([samples.mean(), *samples])
    ends = [percentile_interval(samples, count) for count in (None, 10, 5, 2)]
    for (_, low, high), (_, lower, higher) in pairwise(ends):
        assert lower < low < high < higher


def kept_at(scores, gold, sizes, groups, margin):
    """Gold and text kept within one margin of each question's best, by hand."""
    kept_rows = []
    for question in set(groups):
        rows = groups == question
        lowest = scores[rows].max() - margin * np.log1p(rows.sum()) - 1e-9
        is_kept = scores[rows] >= lowest
        kept_text = sizes[rows][is_kept].sum() / sizes[rows].sum()
        kept_rows.append((is_kept[gold[rows]].mean(), kept_text))
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
    arguments = scores, gold, sizes, groups
    needed_text = required_text_fraction(*arguments, fraction=fraction)
    margins = np.arange(0, 6.01, 1.0)[:, None] / np.log1p(np.bincount(groups))
    kept_rows = [kept_at(*arguments, margin) for margin in np.unique(margins)]
    narrowest = next(text for kept, text in kept_rows if kept >= fraction - 1e-9)
    assert needed_text[0] == pytest.approx(narrowest)
    assert needed_text.shape == (501,)
    assert (needed_text == required_text_fraction(*arguments, fraction=fraction)).all()


def test_few_questions_do_not_say_that_nothing_is_relevant(folder):
    """A folder of an earlier release may hold a floor from as few."""
    manifest = json.loads((folder / "denoiser.json").read_text())
    scale = manifest["scale"]
    assert scale["floor"] is None

    def relevance(**changes):
        changed = manifest | {"scale": scale | changes}
        (folder / "denoiser.json").write_text(json.dumps(changed))
        return load_denoiser(folder).denoise("Who built the tower?", UNRELATED).relevant

    assert relevance() is None
    assert relevance(floor=1e6) is None
    assert relevance(floor=1e6, questions=MIN_FLOOR_QUESTIONS) is False


def test_slips_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"3 different .* expected 20 or more"):
        fit_denoiser(QUESTIONS[:3] * 8)
    with pytest.raises(InputError, match="holds no denoiser"):
        load_denoiser(tmp_path)
    (tmp_path / "denoiser.json").write_text(json.dumps({"format": "something else"}))
    with pytest.raises(InputError, match="not a denoiser of this release"):
        load_denoiser(tmp_path)


def test_a_fit_without_a_model_needs_the_small_extra(monkeypatch):
    for module in ("sklearn", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    fit_denoiser(QUESTIONS)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match=r"rag-denoise\[evaluate\]"):
        fit_denoiser(QUESTIONS)


def test_a_fit_that_is_no_better_than_the_default_is_warned_of(fitted_denoiser):
    evaluation = fitted_denoiser.evaluation
    for low, is_warned in ((0.01, False), (-0.01, True)):
        gains = dict(evaluation.gains_over) | {"default": (0.02, low, 0.05)}
        changed = replace(evaluation, gains_over=gains)
        card = replace(fitted_denoiser, evaluation=changed).card()
        assert ("Warning: the default, which needs no fit" in card) is is_warned


def test_an_earlier_fit_is_overwritten_only_when_asked_to(fitted_denoiser, folder):
    manifest = folder / "denoiser.json"
    before = manifest.read_bytes()
    other_fit = replace(fitted_denoiser, keep=3)
    with pytest.raises(InputError, match="holds an earlier fit"):
        other_fit.save(folder)
    assert manifest.read_bytes() == before
    other_fit.save(folder, overwrite=True)
    assert json.loads(manifest.read_text())["keep"] == 3


def test_a_risk_is_calibrated_on_questions_apart_and_is_the_folders_own(tmp_path):
    others = [replace(q, text=f"Please: {q.text}") for q in QUESTIONS[:22]]
    new_fit = fit_denoiser(QUESTIONS, calibration=others, risk=0.15)
    assert new_fit.scale.questions == 22
    assert 0.15 in new_fit.scale.margins
    assert load_denoiser(new_fit.save(tmp_path / "mine")).rule.risk == 0.15
    with pytest.raises(InputError, match="keep them apart"):
        fit_denoiser(QUESTIONS, calibration=QUESTIONS[:20])
    with pytest.raises(InputError, match="needs 99 calibration questions"):
        fit_denoiser(QUESTIONS, risk=0.01)
