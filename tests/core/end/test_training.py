"""From labelled questions to a probe: captured once, resumable, judged on unseen questions, controlled."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from readings import shouting, states_of

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
    labels = [label for question in questions for label in question.labels]
    assert states.labels.tolist() == labels
    texts = [passage.text for passage in questions[1].passages]
    own_states = states_of(reader(), questions[1].text, texts, [2, 5])
    for layer, rows in own_states.items():
        # float16 of normed states
        np.testing.assert_allclose(states.by_layer[layer][4:8], rows, atol=2e-3)


def test_a_killed_capture_goes_on_where_it_stopped(reader, tmp_path):
    questions = shouting(2 * BATCH_QUESTIONS + 3)
    progress = []

    def capture(reader, folder=tmp_path / "s"):
        return capture_states(
            reader,
            questions,
            layers=[2],
            folder=folder,
            progress=lambda done, count: progress.append((done, count)),
        ).by_layer[2]

    killed, resumed, finished = (reader(Counting) for _ in range(3))
    killed.stop = 1
    with pytest.raises(KeyboardInterrupt):
        capture(killed)
    rows = capture(resumed)
    assert killed.pairs_read == 4 * BATCH_QUESTIONS
    assert resumed.pairs_read == 4 * (BATCH_QUESTIONS + 3)
    capture(finished)
    assert finished.calls == 0
    progress.clear()
    assert np.array_equal(rows, capture(reader(), folder=None))
    dones = (BATCH_QUESTIONS, 2 * BATCH_QUESTIONS, 2 * BATCH_QUESTIONS + 3)
    assert progress == [(done, 2 * BATCH_QUESTIONS + 3) for done in dones]


def test_states_of_something_else_are_never_taken_up(reader, tmp_path):
    questions = shouting(3)
    (tmp_path / "notes.txt").write_text("mine")
    capture_states(reader(), questions, layers=[2], folder=tmp_path)
    for asked, layers, settings in (
        (shouting(3, seed=1), [2], {}),
        (questions, [1, 2], {}),
        (questions, [2], {"normalisation": "none"}),
    ):
        counting = reader(Counting, **settings)
        kept = capture_states(counting, asked, layers=layers, folder=tmp_path)
        assert counting.pairs_read == 12
        fresh = capture_states(reader(**settings), asked, layers=layers)
        assert np.array_equal(kept.by_layer[2], fresh.by_layer[2])


def test_the_same_model_in_another_place_goes_on(tiny, byte_tokenizer, tmp_path):
    model, tokenizer = tiny("llama"), byte_tokenizer()
    readers = []
    for place in ("here", "there"):
        model.save_pretrained(tmp_path / place)
        readers.append(Counting(str(tmp_path / place), tokenizer=tokenizer))
    first = capture_states(readers[0], shouting(3), folder=tmp_path / "states")
    second_run = capture_states(readers[1], shouting(3), folder=tmp_path / "states")
    assert (readers[0].pairs_read, readers[1].pairs_read) == (12, 0)
    assert (first.by_layer[2] == second_run.by_layer[2]).all()


def test_a_damaged_folder_is_a_clear_error(reader, tmp_path):
    capture_states(reader(), shouting(3), layers=[2], folder=tmp_path / "s")
    (written,) = (tmp_path / "s").glob("*/*")
    written.write_bytes(b"half")
    with pytest.raises(InputError, match="damaged"):
        capture_states(reader(), shouting(3), layers=[2], folder=tmp_path / "s")


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
    found = 0
    for question in shouting(20, seed=9):
        kept = denoiser.denoise(question.text, question.passages).passages
        found += not question.gold.isdisjoint(passage.id for passage in kept)
    assert found >= 0.9 * 20
    assert "made up" in (tmp_path / "p" / "README.md").read_text()
    assert json.dumps(dict(probe.card)), "plain JSON values"


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
    for name, values in again.items():
        assert torch.equal(values, fresh[name]), "seeded"


def test_an_encoder_trains_just_as_well(tiny, byte_tokenizer):
    read = HiddenReader(tiny("bert"), tokenizer=byte_tokenizer(pair=True))
    probe_fit = fit_probe(read, shouting(40), layers=[1, 2])
    assert probe_fit.probe.reading.pooling == "cls_mean_question"
    assert probe_fit.layers[0].recall["30 %"].mean() > 0.9


def test_calibration_on_fitted_questions_is_refused(reader):
    with pytest.raises(InputError, match="also fitted on"):
        fit_probe(reader(), shouting(5), calibration=shouting(5)[:1])


class FakeFit:
    """What the layer rule reads of a fit."""

    def __init__(self, layer, kept, text_needed=0.3, width=32):
        self.layer = layer
        self.recall = {"30 %": np.full(100, kept)}
        self.operations = np.full(3, layer / 30 + text_needed)
        self.regression = RegressionFit(np.zeros(width), 0.0, 1.0, np.zeros(0), {})


def test_the_shallowest_fit_with_the_stated_recall_is_taken():
    fits = [FakeFit(6, 0.8), FakeFit(10, 0.92), FakeFit(21, 0.99)]
    assert choose_layer(fits, 0.3, recall=0.9).layer == 10
    assert choose_layer(fits, 0.3, recall=0.95).layer == 21
    assert choose_layer(fits[:1], 0.3, recall=0.95).layer == 6, "the best there is"
    wide = FakeFit(10, 0.99, width=64)
    assert choose_layer([wide, *fits], 0.3, recall=0.9) is fits[1]
    with pytest.raises(InputError):
        choose_layer([])


def test_where_text_is_free_the_least_operations_decide():
    """A deep layer that saves a little text cancels what early layers are for."""
    fits = [FakeFit(4, 0.9, 0.9), FakeFit(8, 0.9, 0.35), FakeFit(21, 0.99, 0.12)]
    assert choose_layer(fits, None).layer == 8


def test_a_probe_with_another_pooling_serves_from_the_same_reader(reader):
    """Its scores are those of the state that it was fitted on."""
    questions = shouting(20)
    read = reader()
    for pooling in ("mean_question", "last_mean_question"):
        fitted = fit_probe(reader(pooling=pooling), questions, layers=[2])
        assert fitted.probe.reading.pooling == pooling
        scores = ProbeScorer(read, fitted.probe).score(
            questions[3].text, [p.text for p in questions[3].passages]
        )
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
        for passage, is_gold in zip(question.passages, question.labels, strict=True):
            header = "!!!" if is_gold else "."
            passages.append(replace(passage, text="the same text", header=header))
        questions.append(replace(question, passages=tuple(passages)))
    read = reader()
    fitted = fit_probe(read, questions[:20], layers=[2], calibration=questions[20:])
    assert fitted.chosen.recall["top 1"].mean() > 0.9
    assert max(fitted.probe.calibration.margins.values()) == 0, "gold is always best"
    denoiser = ENDDenoiser(ProbeScorer(read, fitted.probe), keep=1)
    for question in questions[20:]:
        (kept,) = denoiser.denoise(question.text, question.passages).passages
        assert kept.id in question.gold


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
