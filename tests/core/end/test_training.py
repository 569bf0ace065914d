"""From labelled questions to a probe: captured once, resumable, judged on unseen questions, controlled."""

import json
from dataclasses import replace

import numpy as np
import pytest
from readings import shouting, states_of

from denoise_core import InputError
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit import fit_probe
from denoise_core.end.fit.probe import LineFit, choose_layer, fit_layers
from denoise_core.end.fit.states import BLOCK, capture_states
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.question import Question
from denoise_lab.controls import controls, with_fresh_blocks
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
    labelled_questions = shouting(3)
    hidden_states = capture_states(reader(), labelled_questions)
    assert sorted(hidden_states.by_layer) == [1, 2, 3, 4, 5, 6]
    assert hidden_states.question_index.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert hidden_states.labels.tolist() == [
        label for query in labelled_questions for label in query.labels
    ]
    own_states = states_of(
        reader(),
        labelled_questions[1].text,
        [passage.text for passage in labelled_questions[1].passages],
        [2, 5],
    )
    for layer_index in (2, 5):
        assert np.allclose(
            hidden_states.by_layer[layer_index][4:8], own_states[layer_index], atol=2e-3
        ), "float16 of normed states"


def test_a_killed_capture_goes_on_where_it_stopped(reader, tmp_path):
    labelled_questions = shouting(2 * BLOCK + 3)
    killed = reader(Counting)
    killed.stop = 1
    with pytest.raises(KeyboardInterrupt):
        capture_states(killed, labelled_questions, layers=[2], folder=tmp_path / "s")
    second_run = reader(Counting)
    hidden_states = capture_states(
        second_run, labelled_questions, layers=[2], folder=tmp_path / "s"
    )
    assert killed.pairs_read == 4 * BLOCK
    assert second_run.pairs_read == 4 * (BLOCK + 3)
    assert np.array_equal(
        hidden_states.by_layer[2],
        capture_states(reader(), labelled_questions, layers=[2]).by_layer[2],
    )
    finished = reader(Counting)
    capture_states(finished, labelled_questions, layers=[2], folder=tmp_path / "s")
    assert finished.calls == 0


def test_progress_is_told(reader):
    seen_calls = []
    capture_states(
        reader(),
        shouting(BLOCK + 1),
        layers=[1],
        progress=lambda done, of: seen_calls.append((done, of)),
    )
    assert seen_calls == [(BLOCK, BLOCK + 1), (BLOCK + 1, BLOCK + 1)]


def test_states_of_something_else_are_never_taken_up(reader, tmp_path):
    labelled_questions = shouting(3)
    (tmp_path / "notes.txt").write_text("mine")
    capture_states(reader(), labelled_questions, layers=[2], folder=tmp_path)
    others = [
        (shouting(3, seed=1), [2], {}),
        (labelled_questions, [1, 2], {}),
        (labelled_questions, [2], {"normalisation": "none"}),
    ]
    for asked_questions, layers, settings in others:
        counting = reader(Counting, **settings)
        kept_items = capture_states(
            counting, asked_questions, layers=layers, folder=tmp_path
        )
        assert counting.pairs_read == 12
        assert np.array_equal(
            kept_items.by_layer[2],
            capture_states(reader(**settings), asked_questions, layers=layers).by_layer[
                2
            ],
        )


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
    probe_fit = fit_probe(
        read, shouting(40), calibration=shouting(30, seed=7), card={"source": "made up"}
    )
    probe = probe_fit.probe
    swept = {(layer_fit.layer, layer_fit.pooling) for layer_fit in probe_fit.layers}
    poolings = ("last", "mean_question", "last_mean_question")
    assert swept == {(layer, name) for layer in range(1, 7) for name in poolings}
    assert choose_layer(probe_fit.layers) is probe_fit.chosen
    assert probe_fit.chosen.recall["30 %"].mean() > 0.9
    second_run = Probe.load(probe.save(tmp_path / "p"))
    end_denoiser = ENDDenoiser(ProbeScorer(read, second_run), keep="auto", risk=0.05)
    unseen = shouting(20, seed=9)
    kept_items = [
        end_denoiser.denoise(query.text, query.passages).passages for query in unseen
    ]
    assert (
        np.mean(
            [
                bool(query.gold & {passage.id for passage in entry_name})
                for query, entry_name in zip(unseen, kept_items)
            ]
        )
        >= 0.9
    )
    assert "made up" in (tmp_path / "p" / "README.md").read_text()
    assert json.dumps(dict(probe.card)), "plain JSON values"


def test_a_style_leak_shows_in_the_control_without_question(reader):
    loud = controls(reader(), shouting(40), 3)
    assert loud["no question"].recall["top 1"].mean() > 0.9
    assert loud["random weights"].layer == 3
    quiet = controls(reader(), shouting(40, loud="."), 3)
    assert quiet["no question"].recall["top 1"].mean() < 0.6


def test_fresh_blocks_change_the_blocks_only_and_not_the_random_state(reader):
    import torch

    backbone = reader().backbone
    values_before = torch.get_rng_state()
    fresh = with_fresh_blocks(backbone)
    assert torch.equal(torch.get_rng_state(), values_before)
    own_states, fresh_states = backbone.model.state_dict(), fresh.state_dict()
    same = {
        entry_name
        for entry_name in own_states
        if torch.equal(own_states[entry_name], fresh_states[entry_name])
    }
    assert any("embed" in entry_name for entry_name in same)
    # A norm's gain starts at one in both; everything drawn at random has to differ.
    assert not [
        entry_name
        for entry_name in same
        if "layers." in entry_name and "norm" not in entry_name
    ]
    assert all(
        torch.equal(with_fresh_blocks(backbone).state_dict()[entry_name], item_value)
        for entry_name, item_value in fresh_states.items()
    ), "seeded"


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
        self.line = LineFit(np.zeros(width), 0.0, 1.0, np.zeros(0), {})


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
        passages = [
            replace(
                p, text="the same text", header="!!!" if p.id in question.gold else "."
            )
            for p in question.passages
        ]
        questions.append(replace(question, passages=tuple(passages)))
    read = reader()
    fitted = fit_probe(read, questions[:20], layers=[2], calibration=questions[20:])
    assert fitted.chosen.recall["top 1"].mean() > 0.9
    assert max(fitted.probe.calibration.margins.values()) == 0, "gold is always best"
    denoiser = ENDDenoiser(ProbeScorer(read, fitted.probe), keep=1)
    for question in questions[20:]:
        (kept,) = denoiser.denoise(question.text, question.passages).passages
        assert kept.id in question.gold


def test_a_sweep_names_what_it_measured(reader):
    (actual,) = fit_layers(capture_states(reader(), shouting(10), layers=[2]))
    assert set(actual.recall) == {"top 1", "20 %", "30 %", "50 %", "60 %"}
    assert all(len(item_value) == 10 for item_value in actual.recall.values())
    assert actual.summary()["layer"] == 2


def test_the_study_is_drawn(reader, tmp_path):
    probe_fit = fit_probe(reader(), shouting(10), layers=[1, 3])
    control = controls(reader(), shouting(10), 1)
    blob = plot_layers(probe_fit, tmp_path / "layers.png", control).read_bytes()
    assert blob.startswith(b"\x89PNG")
    assert "<svg" in plot_layers(probe_fit, tmp_path / "layers.svg").read_text()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/someone/minilm", "minilm"),
        (r"C:\Users\someone\minilm", "minilm"),
        (
            "sentence-transformers/all-MiniLM-L6-v2",
            "sentence-transformers/all-MiniLM-L6-v2",
        ),
        ("gpt2", "gpt2"),
    ],
)
def test_the_picture_shows_of_a_path_its_end_alone(reader, tmp_path, name, shown):
    probe_fit = fit_probe(reader(), shouting(10), layers=[1])
    reading = probe_fit.probe.reading
    reading = replace(reading, model=replace(reading.model, name=name))
    probe = Probe(
        probe_fit.probe.weight, probe_fit.probe.bias, reading, probe_fit.probe.threshold
    )
    drawn = plot_layers(
        replace(probe_fit, probe=probe), tmp_path / "layers.svg"
    ).read_text()
    assert f"<!-- Held-out questions, {shown} -->" in drawn
