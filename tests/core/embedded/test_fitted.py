"""A denoiser of one's own: fitted, judged in words, saved and loaded again with one call."""

import json
import random
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage, fit_denoiser, load_denoiser
from denoise_core.embedded import sample
from denoise_core.embedded.fitted import judged
from denoise_core.evaluate.metrics import bootstrap, recall_at
from denoise_core.question import Question


def few(n=24, passages=6):
    """Questions of the sample with their gold and a few other passages."""
    out = []
    for q in sample()[:n]:
        others = [p for p in q.passages if p.id not in q.gold][: passages - 1]
        chosen = [p for p in q.passages if p.id in q.gold or p in others]
        out.append(Question(q.text, tuple(chosen), q.gold, q.answers, q.id))
    return out


@pytest.fixture(scope="module")
def fitted():
    return fit_denoiser(few())


def test_a_folder_is_a_denoiser(fitted, tmp_path):
    folder = fitted.save(tmp_path / "mine")
    assert "Relevant" not in (folder / "README.md").read_text()
    assert str(fitted.verdict) in (folder / "README.md").read_text()
    question = few(1)[0]
    one, two = load_denoiser(folder), load_denoiser(folder, keep=2)
    result = one.denoise(question.text, question.passages)
    assert question.gold <= {p.id for p in result.passages}
    assert "your questions" in result.trace.events[0].effect.guarantee
    assert len(two.denoise(question.text, question.passages).passages) == 2


def test_the_folder_has_its_curves_as_a_picture_and_as_numbers(fitted, tmp_path):
    folder = fitted.save(tmp_path / "mine")
    curves = json.loads((folder / "denoiser.json").read_text())["verdict"]["curves"]
    assert list(curves) == ["shares", "fitted", "default", "cosine", "BM25", "no question"]
    assert curves["shares"][-1] == curves["fitted"][-1] == 1.0
    assert curves["fitted"] == sorted(curves["fitted"])  # more kept, no less gold
    assert "<svg" in (folder / "curves.svg").read_text()


def test_without_matplotlib_the_folder_lacks_its_picture_alone_and_says_so(fitted, tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    folder = fitted.save(tmp_path / "mine")
    assert not (folder / "curves.svg").exists()
    assert len(load_denoiser(folder, keep=1).denoise("who?", few(1)[0].passages).passages) == 1
    assert "curves.svg" in caplog.text


def test_weights_are_not_negative_and_the_verdict_is_of_questions_not_fitted_on(fitted):
    assert min(fitted.stack.weight) >= 0
    assert fitted.verdict.questions == 24
    assert fitted.verdict.kept["fitted"] > 0.8


def test_shuffled_labels_are_called_no_better():
    rng = random.Random(0)
    shuffled = [replace(q, gold=frozenset([rng.choice(q.passages).id])) for q in few()]
    verdict = fit_denoiser(shuffled, keep=0.3).verdict
    assert verdict.word != "better"
    assert "0.3" not in verdict.word


def test_the_three_words():
    labels, groups = np.tile([True, False, False, False], 60), np.repeat(np.arange(60), 4)
    good, bad = labels.astype(np.float32), (~labels).astype(np.float32)
    assert judged(good, {"cosine": bad}, labels, groups, 0.3, folds=5).word == "better"
    assert judged(bad, {"cosine": good}, labels, groups, 0.3, folds=5).word == "worse"
    same = judged(good, {"cosine": good}, labels, groups, 0.3, folds=5)
    assert same.word == "no difference found"
    assert "No difference from cosine found" in str(same)


@given(st.integers(0, 1000))
def test_fits_that_share_questions_are_judged_with_a_wider_interval(seed):
    rng = np.random.default_rng(seed)
    labels, groups = np.tile([True, False, False, False], 60), np.repeat(np.arange(60), 4)
    fitted, cosine = labels + rng.normal(size=(2, 240)).astype(np.float32)
    kept = [recall_at(scores, labels, groups, 0.3) for scores in (fitted, cosine)]
    ends = [bootstrap(kept[0] - kept[1])]
    ends += [judged(fitted, {"cosine": cosine}, labels, groups, 0.3, folds=n).interval for n in (10, 5, 2)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert lower < low < high < higher


def test_slips_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match="expected 20 or more"):
        fit_denoiser(few(3))
    with pytest.raises(InputError, match="holds no denoiser"):
        load_denoiser(tmp_path)
    (tmp_path / "denoiser.json").write_text(json.dumps({"format": "something else"}))
    with pytest.raises(InputError, match="not a denoiser of this release"):
        load_denoiser(tmp_path)


def test_relevant_passages_with_a_style_of_their_own_are_warned_of(fitted):
    assert not any("never saw the questions" in w for w in fitted.verdict.warnings)
    rng = random.Random(1)
    words = ["amber", "basalt", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juniper"]
    questions = []
    for n in range(24):
        gold = Passage(f"What this is about: the {rng.choice(words)}. This is what it is all about.", "g")
        others = [Passage(" ".join(rng.choices(words, k=6)).capitalize() + ".", f"o{i}") for i in range(5)]
        questions.append(Question(f"Which {rng.choice(words)} {n}?", (*others, gold), frozenset({"g"})))
    found = fit_denoiser(questions, keep=0.3)
    assert found.verdict.kept["no question"] == 1.0
    assert any("never saw the questions" in w for w in found.verdict.warnings)
    assert "Warning: a fit that never saw the questions" in found.card()


def test_an_earlier_fit_is_overwritten_only_when_asked_to(fitted, tmp_path):
    folder = fitted.save(tmp_path / "mine")
    before = (folder / "denoiser.json").read_bytes()
    with pytest.raises(InputError, match="holds an earlier fit"):
        replace(fitted, keep=3).save(folder)
    assert (folder / "denoiser.json").read_bytes() == before
    replace(fitted, keep=3).save(folder, overwrite=True)
    assert json.loads((folder / "denoiser.json").read_text())["keep"] == 3


def test_a_risk_is_calibrated_on_questions_apart_and_is_the_folders_own(tmp_path):
    others = [replace(q, text=f"Please: {q.text}") for q in few(22)]
    found = fit_denoiser(few(), calibration=others, risk=0.15)
    assert (found.scale.questions, 0.15 in found.scale.margins) == (22, True)
    loaded = load_denoiser(found.save(tmp_path / "mine"))
    assert loaded.rule.risk == 0.15
    with pytest.raises(InputError, match="keep them apart"):
        fit_denoiser(few(), calibration=few(20))
    with pytest.raises(InputError, match="needs 99 calibration questions"):
        fit_denoiser(few(), risk=0.01)
