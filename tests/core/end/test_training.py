"""From labelled questions to a probe: captured once, resumable, judged on unseen questions, controlled."""

import json
from dataclasses import replace

import numpy as np
import pytest
from readings import states_of

from denoise_core import InputError, Passage
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit import fit_probe
from denoise_core.end.fit.probe import choose_layer, fit_layers
from denoise_core.end.fit.states import BLOCK, capture_states
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.question import Question
from denoise_lab.controls import controls, with_fresh_blocks
from denoise_lab.plots import plot_layers


def shouting(n, seed=0, loud="!!!"):
    """Questions whose one relevant passage ends loudly, so that even a random model shows it."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        gold = int(rng.integers(4))
        words = ["".join(rng.choice(list("abcdefg ."), 12)) for _ in range(4)]
        texts = [w + (loud if j == gold else ".") for j, w in enumerate(words)]
        passages = tuple(Passage(t, f"p{j}") for j, t in enumerate(texts))
        out.append(
            Question(f"which {seed} {i}?", passages, frozenset({f"p{gold}"}), id=str(i))
        )
    return out


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
    captured = capture_states(reader(), questions)
    assert sorted(captured.by_layer) == [1, 2, 3, 4, 5, 6]
    assert captured.question_index.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert captured.labels.tolist() == [label for q in questions for label in q.labels]
    own = states_of(
        reader(), questions[1].text, [p.text for p in questions[1].passages], [2, 5]
    )
    for layer in (2, 5):
        assert np.allclose(captured.by_layer[layer][4:8], own[layer], atol=2e-3), (
            "float16 of normed states"
        )


def test_a_killed_capture_goes_on_where_it_stopped(reader, tmp_path):
    questions = shouting(2 * BLOCK + 3)
    killed = reader(Counting)
    killed.stop = 1
    with pytest.raises(KeyboardInterrupt):
        capture_states(killed, questions, layers=[2], folder=tmp_path / "s")
    again = reader(Counting)
    captured = capture_states(again, questions, layers=[2], folder=tmp_path / "s")
    assert killed.pairs_read == 4 * BLOCK
    assert again.pairs_read == 4 * (BLOCK + 3)
    assert np.array_equal(
        captured.by_layer[2],
        capture_states(reader(), questions, layers=[2]).by_layer[2],
    )
    finished = reader(Counting)
    capture_states(finished, questions, layers=[2], folder=tmp_path / "s")
    assert finished.calls == 0


def test_progress_is_told(reader):
    seen = []
    capture_states(
        reader(),
        shouting(BLOCK + 1),
        layers=[1],
        progress=lambda done, of: seen.append((done, of)),
    )
    assert seen == [(BLOCK, BLOCK + 1), (BLOCK + 1, BLOCK + 1)]


def test_states_of_something_else_are_never_taken_up(reader, tmp_path):
    questions = shouting(3)
    (tmp_path / "notes.txt").write_text("mine")
    capture_states(reader(), questions, layers=[2], folder=tmp_path)
    others = [
        (shouting(3, seed=1), [2], {}),
        (questions, [1, 2], {}),
        (questions, [2], {"normalisation": "none"}),
    ]
    for asked, layers, settings in others:
        counting = reader(Counting, **settings)
        kept = capture_states(counting, asked, layers=layers, folder=tmp_path)
        assert counting.pairs_read == 12
        assert np.array_equal(
            kept.by_layer[2],
            capture_states(reader(**settings), asked, layers=layers).by_layer[2],
        )


def test_the_same_model_in_another_place_goes_on(tiny, byte_tokenizer, tmp_path):
    model, tokenizer = tiny("llama"), byte_tokenizer()
    readers = []
    for place in ("here", "there"):
        model.save_pretrained(tmp_path / place)
        readers.append(Counting(str(tmp_path / place), tokenizer=tokenizer))
    first = capture_states(readers[0], shouting(3), folder=tmp_path / "states")
    again = capture_states(readers[1], shouting(3), folder=tmp_path / "states")
    assert (readers[0].pairs_read, readers[1].pairs_read) == (12, 0)
    assert (first.by_layer[2] == again.by_layer[2]).all()


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
    trained = fit_probe(
        read, shouting(40), calibration=shouting(30, seed=7), card={"source": "made up"}
    )
    probe = trained.probe
    assert [f.layer for f in trained.layers] == [1, 2, 3, 4, 5, 6]
    assert choose_layer(trained.layers).layer == probe.reading.layer
    assert trained.layers[probe.reading.layer - 1].recall["top 1"].mean() > 0.9
    again = Probe.load(probe.save(tmp_path / "p"))
    denoiser = ENDDenoiser(ProbeScorer(read, again), keep="calibrated", risk=0.05)
    unseen = shouting(20, seed=9)
    kept = [denoiser.denoise(q.text, q.passages).passages for q in unseen]
    assert (
        np.mean([bool(q.gold & {p.id for p in k}) for q, k in zip(unseen, kept)]) >= 0.9
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
    before = torch.get_rng_state()
    fresh = with_fresh_blocks(backbone)
    assert torch.equal(torch.get_rng_state(), before)
    own, new = backbone.model.state_dict(), fresh.state_dict()
    same = {k for k in own if torch.equal(own[k], new[k])}
    assert any("embed" in k for k in same)
    # A norm's gain starts at one in both; everything drawn at random has to differ.
    assert not [k for k in same if "layers." in k and "norm" not in k]
    assert all(
        torch.equal(with_fresh_blocks(backbone).state_dict()[k], v)
        for k, v in new.items()
    ), "seeded"


def test_an_encoder_trains_just_as_well(tiny, byte_tokenizer):
    read = HiddenReader(tiny("bert"), tokenizer=byte_tokenizer(pair=True))
    trained = fit_probe(read, shouting(40), layers=[1, 2])
    assert trained.probe.reading.pooling == "cls_mean_question"
    assert trained.layers[0].recall["30 %"].mean() > 0.9


def test_calibration_on_fitted_questions_is_refused(reader):
    with pytest.raises(InputError, match="also fitted on"):
        fit_probe(reader(), shouting(5), calibration=shouting(5)[:1])


class Fake:
    def __init__(self, layer, each):
        self.layer, self.recall = layer, {"30 %": np.array(each, dtype=float)}


def test_the_cheapest_layer_that_loses_little_is_taken():
    good, nearly, bad = [1] * 90 + [0] * 10, [1] * 89 + [0] * 11, [1] * 50 + [0] * 50
    assert (
        choose_layer(
            [Fake(1, bad), Fake(2, nearly), Fake(3, good), Fake(4, good)]
        ).layer
        == 2
    )
    assert choose_layer([Fake(1, nearly), Fake(3, good)], margin=0.0).layer == 3
    assert choose_layer([Fake(4, good), Fake(3, bad)]).layer == 4
    with pytest.raises(InputError):
        choose_layer([])


def test_a_sweep_names_what_it_measured(reader):
    (found,) = fit_layers(capture_states(reader(), shouting(10), layers=[2]))
    assert set(found.recall) == {"top 1", "20 %", "30 %", "50 %", "60 %"}
    assert all(len(v) == 10 for v in found.recall.values())
    assert found.summary()["layer"] == 2


def test_the_study_is_drawn(reader, tmp_path):
    trained = fit_probe(reader(), shouting(10), layers=[1, 3])
    control = controls(reader(), shouting(10), 1)
    blob = plot_layers(trained, tmp_path / "layers.png", control).read_bytes()
    assert blob.startswith(b"\x89PNG")
    assert "<svg" in plot_layers(trained, tmp_path / "layers.svg").read_text()


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
    trained = fit_probe(reader(), shouting(10), layers=[1])
    reading = trained.probe.reading
    reading = replace(reading, model=replace(reading.model, name=name))
    probe = Probe(
        trained.probe.weight, trained.probe.bias, reading, trained.probe.threshold
    )
    drawn = plot_layers(
        replace(trained, probe=probe), tmp_path / "layers.svg"
    ).read_text()
    assert f"<!-- Held-out questions, {shown} -->" in drawn
