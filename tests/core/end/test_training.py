"""From labelled questions to a probe: captured once, resumable, judged on unseen questions, controlled."""

import itertools
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from readings import count_found, shouting, states_of

from denoise_core import InputError
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit import fit_probe
from denoise_core.end.fit.probe import RegressionFit, choose_layer
from denoise_core.end.fit.states import BATCH_QUESTIONS, capture_states
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.question import Question
from denoise_lab.controls import fit_without_question, with_random_blocks
from denoise_lab.plots import plot_layers


class Counting(HiddenReader):
    """A reader that counts what it reads, and is stopped like by Ctrl-C before call number ``stop``."""

    calls = 0
    pairs_read = 0
    stop: int | None = None

    def read(self, pairs, layers):
        if self.calls == self.stop:
            raise KeyboardInterrupt
        self.calls += 1
        self.pairs_read += len(pairs)
        return super().read(pairs, layers)


@pytest.fixture(scope="module")
def reader(tiny, byte_tokenizer):
    def make(kind=HiddenReader, **settings):
        return kind(
            tiny("llama"),
            tokenizer=byte_tokenizer(),
            settings=ReadingSettings(**settings),
        )

    return make


def test_captured_states_are_the_readers_own_with_the_right_labels(reader):
    questions = shouting(3)
    states = capture_states(reader(), questions)
    assert sorted(states.by_layer) == [1, 2, 3, 4, 5, 6]
    assert states.question_index.tolist() == np.repeat(range(3), 4).tolist()
    labels = np.concatenate([question.labels for question in questions])
    assert np.array_equal(states.labels, labels)
    texts = [passage.text for passage in questions[1].passages]
    own_states = states_of(reader(), questions[1].text, texts, [2, 5])
    for layer, rows in own_states.items():
        # float16 of normed states
        np.testing.assert_allclose(states.by_layer[layer][4:8], rows, atol=2e-3)


def test_a_killed_capture_goes_on_where_it_stopped(reader, tmp_path):
    count = 2 * BATCH_QUESTIONS + 3
    capture = partial(capture_states, questions=shouting(count), layers=[2])
    killed, resumed, finished = (reader(Counting) for _ in range(3))
    killed.stop = 1
    with pytest.raises(KeyboardInterrupt):
        capture(killed, folder=tmp_path)
    states = capture(resumed, folder=tmp_path)
    assert killed.pairs_read == 4 * BATCH_QUESTIONS
    assert resumed.pairs_read == 4 * (BATCH_QUESTIONS + 3)
    capture(finished, folder=tmp_path)
    assert finished.calls == 0
    progress = []
    fresh = capture(reader(), progress=lambda *done: progress.append(done))
    assert np.array_equal(states.by_layer[2], fresh.by_layer[2])
    dones = (BATCH_QUESTIONS, 2 * BATCH_QUESTIONS, count)
    assert progress == [(done, count) for done in dones]


def test_states_of_something_else_are_never_taken_up(reader, tmp_path):
    questions = shouting(3)
    (tmp_path / "notes.txt").write_text("mine")
    capture_states(reader(), questions, layers=[2], folder=tmp_path)
    for asked, layers, settings in (
        (shouting(3, seed=1), [2], {}),
        (questions, [1, 2], {}),
        (questions, [2], {"pooling": "mean_question"}),
    ):
        counting = reader(Counting, **settings)
        kept = capture_states(counting, asked, layers=layers, folder=tmp_path)
        assert counting.pairs_read == 12
        fresh = capture_states(reader(**settings), asked, layers=layers)
        assert np.array_equal(kept.by_layer[2], fresh.by_layer[2])


def test_a_damaged_folder_is_a_clear_error(reader, tmp_path):
    capture = partial(capture_states, reader(), shouting(3), folder=tmp_path)
    capture()
    (written,) = tmp_path.glob("*/*")
    written.write_bytes(b"half")
    with pytest.raises(InputError, match="damaged"):
        capture()


def test_nothing_to_read(reader):
    with pytest.raises(InputError, match="no question with passages"):
        capture_states(reader(), [Question("q", (), frozenset())])


def test_training_finds_the_signal_and_the_probe_serves_the_denoiser(reader, tmp_path):
    read = reader()
    fit = fit_probe(
        read, shouting(40), calibration=shouting(30, seed=7), card={"source": "made up"}
    )
    swept = {(layer_fit.layer, layer_fit.pooling) for layer_fit in fit.layers}
    poolings = ("last", "mean_question", "last_mean_question")
    assert swept == set(itertools.product(range(1, 7), poolings))
    assert choose_layer(fit.layers) is fit.chosen
    recall = fit.chosen.recall
    assert set(recall) == {"top 1", "20 %", "30 %", "50 %", "60 %"}
    assert {len(values) for values in recall.values()} == {40}
    assert recall["30 %"].mean() > 0.9
    probe = Probe.load(fit.probe.save(tmp_path / "p"))
    denoiser = ENDDenoiser(ProbeScorer(read, probe), keep="auto", risk=0.05)
    assert count_found(denoiser, shouting(20, seed=9)) >= 0.9 * 20
    assert "made up" in (tmp_path / "p" / "README.md").read_text()
    assert probe.card["fit"]["questions"] == probe.card["fit"]["relevant chunks"] == 40


def test_a_style_leak_shows_in_the_control_without_question(reader):
    loud = fit_without_question(reader(), shouting(40), 3)
    assert loud.recall["top 1"].mean() > 0.9
    assert loud.layer == 3
    quiet = fit_without_question(reader(), shouting(40, loud="."), 3)
    assert quiet.recall["top 1"].mean() < 0.6


def test_random_blocks_change_the_blocks_only_and_not_the_random_state(reader):
    backbone = reader().backbone
    state_before = torch.get_rng_state()
    own, fresh, again = (
        model.state_dict()
        for model in (backbone.model, *(with_random_blocks(backbone) for _ in range(2)))
    )
    assert torch.equal(torch.get_rng_state(), state_before)
    same = {name for name, values in own.items() if torch.equal(values, fresh[name])}
    assert any("embed" in name for name in same)
    # A norm's gain starts at one in both; everything drawn at random has to differ.
    assert not [name for name in same if "layers." in name and "norm" not in name]
    torch.testing.assert_close(again, fresh, rtol=0, atol=0)  # seeded


def test_calibration_on_fitted_questions_is_refused(reader):
    with pytest.raises(InputError, match="also fitted on"):
        fit_probe(reader(), shouting(5), calibration=shouting(5)[:1])


def fake_fit(layer, kept, text_needed=0.3, width=32):
    """What the layer rule reads of a fit."""
    return SimpleNamespace(
        layer=layer,
        recall={"30 %": np.full(100, kept)},
        operations=np.full(3, layer / 30 + text_needed),
        regression=RegressionFit(np.zeros(width), 0.0, 1.0, np.zeros(0), {}),
    )


def test_the_shallowest_fit_with_the_stated_recall_is_taken():
    fits = [fake_fit(6, 0.8), fake_fit(10, 0.92), fake_fit(21, 0.99)]
    assert choose_layer(fits, 0.3, recall=0.9).layer == 10
    assert choose_layer(fits, 0.3, recall=0.95).layer == 21
    assert choose_layer(fits[:1], 0.3, recall=0.95).layer == 6, "the best there is"
    wide = fake_fit(10, 0.99, width=64)
    assert choose_layer([wide, *fits], 0.3, recall=0.9) is fits[1]
    with pytest.raises(InputError):
        choose_layer([])


def test_where_text_is_free_the_least_operations_decide():
    """A deep layer that saves a little text cancels what early layers are for."""
    fits = [fake_fit(4, 0.9, 0.9), fake_fit(8, 0.9, 0.35), fake_fit(21, 0.99, 0.12)]
    assert choose_layer(fits, None).layer == 8


def test_a_probe_with_another_pooling_serves_from_the_same_reader(reader):
    """Its scores are those of the state that it was fitted on."""
    questions = shouting(20)
    read = reader()
    for pooling in ("mean_question", "last_mean_question"):
        fitted = fit_probe(reader(pooling=pooling), questions, layers=[2])
        assert fitted.probe.reading.pooling == pooling
        texts = [passage.text for passage in questions[3].passages]
        scores = ProbeScorer(read, fitted.probe).score(questions[3].text, texts)
        states = capture_states(read.with_pooling(pooling), questions[3:4], layers=[2])
        wanted = fitted.probe.score(states.by_layer[2])
        assert np.allclose(scores, wanted, atol=1e-2), "float16 of normed states"
    with pytest.raises(InputError, match="'mean_question'"):
        reader(pooling="middle")


def test_headers_are_read_in_fitting_as_in_use(reader):
    """Only the headers tell these passages apart."""
    questions = []
    for question in shouting(24):
        passages = []
        for passage in question.passages:
            header = "!!!" if passage.id in question.gold else "."
            passages.append(replace(passage, text="the same text", header=header))
        questions.append(replace(question, passages=tuple(passages)))
    read = reader()
    fitted = fit_probe(read, questions[:20], layers=[2], calibration=questions[20:])
    assert fitted.chosen.recall["top 1"].mean() > 0.9
    assert max(fitted.probe.calibration.margins.values()) == 0, "gold is always best"
    denoiser = ENDDenoiser(ProbeScorer(read, fitted.probe), keep=1)
    assert count_found(denoiser, questions[20:]) == 4


def test_the_study_is_drawn(reader, tmp_path):
    fit = fit_probe(reader(), shouting(10), layers=[1, 3])
    controls = {"no question": fit_without_question(reader(), shouting(10), 1)}
    blob = plot_layers(fit, tmp_path / "layers.png", controls).read_bytes()
    assert blob.startswith(b"\x89PNG")
    # Of a path its end alone is shown.
    for name, shown in (
        ("/home/someone/minilm", "minilm"),
        (r"C:\Users\someone\minilm", "minilm"),
        ("sentence-transformers/all-MiniLM-L6-v2",) * 2,
        ("gpt2", "gpt2"),
    ):
        reading = fit.probe.reading
        reading = replace(reading, model=replace(reading.model, name=name))
        probe = replace(fit.probe, reading=reading)
        drawn = plot_layers(replace(fit, probe=probe), tmp_path / "layers.svg")
        assert f"<!-- Held-out questions, {shown} -->" in drawn.read_text()
