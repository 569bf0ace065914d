"""A `map` elsewhere: the same results in the same order from other processes, and so the same fit."""

import signal
from dataclasses import replace

import numpy as np
import pytest
from tiny_models import QUESTION, TEXTS, tiny_pair

from denoise_core import InputError, Passage
from denoise_core.embedded.fitted import fit_denoiser
from denoise_core.embedded.sample import sample
from denoise_core.end import HiddenReader
from denoise_core.end.auto import AutoScale
from denoise_core.end.fit.readings import capture
from denoise_core.question import Question
from denoise_lab.elsewhere import elsewhere

SCALE = AutoScale({0.1: 1.0}, None, 9.0, 300)


def test_it_is_a_map():
    each = elsewhere("process", 2)
    assert list(each(abs, range(-40, 0))) == list(map(abs, range(-40, 0)))
    assert list(each(abs, [])) == []


def test_what_is_raised_there_is_raised_here_and_a_death_says_what_to_do():
    with pytest.raises(InputError, match="calibrated for"):
        list(elsewhere("process", 2)(SCALE.rule, [0.1, 0.3, 0.1]))
    with pytest.raises(InputError, match="fewer workers"):
        list(elsewhere("process", 1)(signal.raise_signal, [signal.SIGKILL] * 3))


def questions(count):
    return [
        Question(
            f"{QUESTION} {n}", tuple(Passage(f"{t} {n}", str(i)) for i, t in enumerate(TEXTS)), frozenset("0")
        )
        for n in range(count)
    ]


def test_states_read_by_processes_are_those_read_here(tmp_path):
    model, tokenizer = tiny_pair()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    reader = HiddenReader(str(tmp_path / "model"))
    here = capture(reader, questions(20))
    there = capture(reader, questions(20), folder=tmp_path / "states", each=elsewhere("process", 2))
    assert here.by_layer.keys() == there.by_layer.keys()
    for layer in here.by_layer:
        np.testing.assert_allclose(here.by_layer[layer], there.by_layer[layer], atol=1e-3)


def test_a_loaded_model_is_refused_with_what_to_give():
    model, tokenizer = tiny_pair()
    with pytest.raises(InputError, match="give the model by name or folder"):
        capture(HiddenReader(model, tokenizer=tokenizer), questions(2), each=elsewhere("process", 1))


def test_a_fit_is_the_same_by_processes():
    few = [
        replace(q, passages=[p for p in q.passages if p.id in q.gold or int(p.id[-1]) < 2]) for q in sample()[:24]
    ]
    here, there = fit_denoiser(few), fit_denoiser(few, each=elsewhere("process", 2))
    np.testing.assert_allclose(here.stack.weight, there.stack.weight, atol=1e-3)
    assert here.verdict.interval == pytest.approx(there.verdict.interval, abs=1e-2)
