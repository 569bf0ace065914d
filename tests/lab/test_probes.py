"""Probes of a reader-shaped model, made from a folder as the shipped ones are, and the questions behind them."""

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.probe import Probe
from denoise_core.end.reader import ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.loading import load_model, load_tokenizer
from denoise_core.question import Question
from denoise_lab import FOLDER, probes
from denoise_lab.layouts import SC
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval
from denoise_lab.probe_data import (
    LEAST_PASSAGES,
    attributes,
    mixed_questions,
    noisy_questions,
    scene_questions,
)
from denoise_lab.training.network import Network, Shape, hugging_face
from denoise_lab.training.vocabulary import train_tokenizer
from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import held_out

HAYSTACK = "\n".join(prose()[:60])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model of the reader's make, in files."""
    where = tmp_path_factory.mktemp("reader")
    tokenizer = train_tokenizer(conversations=10)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(Shape(width=32, inner=48, layers=2, first=2, heads=4))
    hugging_face(network, tokenizer).save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    """Probe folders, as the command writes them."""
    out = tmp_path_factory.mktemp("probes")
    few = ["--questions", "8", "--calibration", "6", "--only", "scq,sc"]
    probes.main(["--model", str(folder), "--out", str(out), *few])
    return out


def test_a_made_probe_scores_the_same_after_it_was_loaded(folder, made):
    question = scene_questions(1, seed=9)[0]
    texts = [p.text for p in question.passages]
    model, tokenizer = load_model(folder, generates=True), load_tokenizer(folder)
    again = probes.make(model, tokenizer, "scq", questions=8, calibration=6)
    from_object = ProbeScorer(model, again, tokenizer=tokenizer).score(question.text, texts)
    from_folder = ProbeScorer(folder, Probe.load(made / "scq")).score(question.text, texts)
    assert np.allclose(from_object, from_folder, atol=1e-4)
    assert len(set(from_object.round(4).tolist())) > 1


def test_a_probe_is_calibrated_and_its_card_says_what_it_was_made_from(made):
    probe = Probe.load(made / "scq")
    assert probe.calibration is not None
    assert probe.calibration.n == 6
    assert probe.card["seed"] == 0
    assert "held-out" in " ".join(probe.card)
    assert {c["control"] for c in probe.card["controls, same layer, held-out questions"]} == {
        "random weights",
        "no question",
    }


def test_a_probe_does_not_say_where_the_model_lay(folder, made):
    for file in (made / "scq").glob("*.*"):
        assert str(folder).encode() not in file.read_bytes()


def test_the_probe_denoises_within_its_promise(folder, made):
    scorer = ProbeScorer(folder, Probe.load(made / "scq"))
    question = scene_questions(1, seed=4)[0]
    kept = ENDDenoiser(scorer, keep="calibrated", risk=0.3).denoise(question.text, question.passages)
    assert 1 <= len(kept.passages) <= len(question.passages)


def test_the_probe_without_a_question_does_not_see_one(folder, made):
    scorer = ProbeScorer(folder, Probe.load(made / "sc"), settings=ReadingSettings(layout=SC))
    texts = ["Ann lives in Calberg.", "Bob keeps a cat."]
    asked = [scorer.score(question, texts) for question in ("Where does Ann live?", "What pet has Bob?")]
    np.testing.assert_allclose(*asked, atol=1e-5)


def test_probes_refuse_other_weights(made, tmp_path):
    tokenizer = train_tokenizer(conversations=10)
    other = hugging_face(Network(Shape(width=32, inner=48, layers=2, first=2, heads=4)), tokenizer)
    scorer = ProbeScorer(other, Probe.load(made / "scq"), tokenizer=tokenizer)
    with pytest.raises(ProbeMismatch, match="weights"):
        scorer.score("Where?", ["Here."])


@pytest.mark.parametrize("wrong", ["", "SCQ", "pair", "../scq"])
def test_an_unknown_layout_is_named_together_with_those_there_are(wrong):
    with pytest.raises(InputError, match="'scq', 'sqc', 'qsc', 'sc', 'distinguish'"):
        probes.reader_probe(wrong)
    with pytest.raises(InputError, match="'scq'"):
        probes.make(None, None, wrong)


@given(st.sampled_from(LEVELS), st.integers(0, 50), st.booleans(), st.integers(1, 4))
@settings(max_examples=20)
def test_questions_ask_for_what_is_kept_apart_or_for_none_of_it(level, seed, test, n):
    kind = NoisyRetrieval(level, characters=40, distractors=4)
    asked = noisy_questions(kind, HAYSTACK, n, seed=seed, test=test)
    assert len(asked) == n
    assert all(held_out(*attributes(q)) is test for q in asked)
    assert noisy_questions(kind, HAYSTACK, n + 2, seed=seed, test=test)[:n] == asked


def test_no_questions_are_none():
    assert noisy_questions(NoisyRetrieval(0), HAYSTACK, 0) == ()
    assert scene_questions(0) == ()


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=20)
def test_the_relevant_passage_of_a_scene_and_no_other_states_the_answer(seed, test):
    question = scene_questions(1, seed=seed, test=test, kinds=("things",))[0]
    said = question.text.removesuffix("?").removesuffix(".")
    who = next(w for w in said.split() if w.endswith("'s"))
    stating = {p.id for p in question.passages if question.answers[0] in p.text and who in p.text}
    assert stating == question.gold
    assert len(question.passages) >= LEAST_PASSAGES


def test_scenes_for_testing_share_no_name_and_no_wording_with_those_for_fitting():
    fit = scene_questions(40, kinds=("people",))
    test = scene_questions(40, kinds=("people",), test=True)
    assert not {q.text for q in fit} & {q.text for q in test}
    assert all(not held_out(_last_name(q.text)) for q in fit)
    assert all(held_out(_last_name(q.text)) for q in test)


def _last_name(asked: str) -> str:
    """The capitalised word that ends a name: it follows another one and is not the question's first word."""
    words = asked.strip("?.").replace("'s", "").split()
    return next(b for a, b in pairwise(words[1:]) if a[0].isupper() and b[0].isupper())


@given(st.integers(2, 60), st.integers(0, 5))
@settings(max_examples=8)
def test_the_mixture_is_half_noisy_retrieval_and_the_same_every_time(n, seed):
    mixed = mixed_questions(HAYSTACK, n, seed=seed)
    assert len(mixed) == n
    assert sum(len(q.passages) == 13 for q in mixed) >= n // 2
    assert mixed == mixed_questions(HAYSTACK, n, seed=seed)
    assert all(sum(q.labels) == 1 for q in mixed)


def test_a_question_of_another_kind_has_no_attributes():
    with pytest.raises(InputError, match="no question of NoisyRetrieval"):
        attributes(Question("Where does Ann live?", (), frozenset()))


def test_scenes_too_small_to_rank_are_refused():
    with pytest.raises(InputError, match="passages or more"):
        scene_questions(1, difficulty=Difficulty(facts=2, passages=1))


def test_the_global_random_state_is_left_alone():
    random.seed(3)
    before = random.getstate()
    mixed_questions(HAYSTACK, 4)
    assert random.getstate() == before


@pytest.mark.parametrize("layout", sorted(probes.LAYOUTS))
def test_a_shipped_probe_belongs_to_the_shipped_reader(layout):
    question = scene_questions(1, seed=5, test=True)[0]
    probe = probes.reader_probe(layout)
    scorer = ProbeScorer(FOLDER, probe, settings=ReadingSettings(layout=probes.LAYOUTS[layout]))
    assert probe.reading.layout.startswith(f"{layout}:")
    assert probe.calibration is not None
    assert probe.reading.model.name == probes.NAME
    assert np.isfinite(scorer.score(question.text, [p.text for p in question.passages])).all()
