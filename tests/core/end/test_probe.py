"""A probe scores what it should, refuses what it must, and survives the disk."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save

from denoise_core import InputError, ProbeMismatch
from denoise_core.end.probe import PROBE_FILES, HiddenStateSpec, Probe, replace_folder
from denoise_core.local.fingerprint import ModelFingerprint

MODEL = ModelFingerprint(
    "tiny/model", "llama", 4, "float32", weights="aa", tokenizer="bb"
)
READING = HiddenStateSpec(MODEL, layer=2, layout="S|C|Q v1")


def a_probe(**changes):
    settings = {"weight": np.arange(4.0), "bias": -1.0, "reading": READING}
    return Probe(**(settings | changes))


@given(arrays(np.float32, (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
def test_the_score_is_the_dot_product_plus_the_bias(states):
    chunk_scores = a_probe().score(states)
    assert chunk_scores.dtype == np.float32
    assert np.allclose(chunk_scores, states @ np.arange(4) - 1, atol=1e-2)


def test_no_states_give_no_scores():
    assert a_probe().score(np.zeros((0, 4))).shape == (0,)


@pytest.mark.parametrize("states", [np.zeros(4), np.zeros((2, 5))])
def test_states_of_another_width_are_refused(states):
    with pytest.raises(ProbeMismatch, match="tiny/model"):
        a_probe().score(states)


@pytest.mark.parametrize(
    "weight", [np.zeros((2, 2)), np.array([np.nan] * 4), np.zeros(0), np.zeros(5)]
)
def test_a_weight_that_is_no_finite_vector_of_the_models_width_is_refused(weight):
    with pytest.raises(InputError):
        a_probe(weight=weight)


def test_a_probe_does_not_follow_later_changes_of_its_weight():
    weight = np.arange(4.0, dtype=np.float32)
    line_probe = a_probe(weight=weight)
    weight[:] = 9
    assert line_probe.weight.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        line_probe.weight[0] = 1


def test_a_mismatch_names_every_difference():
    other = HiddenStateSpec(replace(MODEL, weights="cc"), 3, "S|Q|C v1")
    layers = "layer: the probe was fitted with 2, this scorer uses 3"
    with pytest.raises(ProbeMismatch, match=f"(?s)weights.*{layers}.*layout"):
        a_probe().check(other)
    a_probe().check(READING)


def test_a_saved_probe_comes_back_equal(tmp_path):
    note = "zwölf 🐝 | pipes"
    card = {"fit": {"C": 0.1, "note": note}, "layers": [{"layer": 1, "recall": 0.5}]}
    folder = a_probe(card=card).save(tmp_path / "p")
    loaded = Probe.load(folder)
    assert loaded.weight.tolist() == [0, 1, 2, 3]
    assert (loaded.bias, loaded.reading, loaded.card) == (-1.0, READING, card)
    names = {"probe.safetensors", "probe.json", "README.md"}
    assert {path.name for path in folder.iterdir()} == names
    assert note in (folder / "README.md").read_text("utf-8")


def test_saving_again_replaces_the_old_probe_and_leaves_nothing_else(tmp_path):
    for bias in (-1.0, 5.0):
        a_probe(bias=bias).save(tmp_path / "p")
    assert Probe.load(tmp_path / "p").bias == 5.0
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        a_probe().save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.fixture
def folder(tmp_path):
    """The folder of a saved probe, alone in its place."""
    return a_probe().save(tmp_path / "p")


def test_what_somebody_put_there_meanwhile_is_not_touched(folder):
    def filling():
        with replace_folder(folder, own_names=frozenset(PROBE_FILES)):
            (folder / "notes.txt").write_text("an hour of work")

    with pytest.raises(InputError, match=r"notes\.txt"):
        filling()
    assert (folder / "notes.txt").exists()


def test_an_interrupted_save_leaves_the_old_probe(folder):
    def interrupted():
        with replace_folder(folder, own_names=frozenset(PROBE_FILES)) as stage:
            (stage / "probe.json").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Probe.load(folder).bias == -1.0
    assert list(folder.parent.iterdir()) == [folder]


def test_a_card_that_is_no_json_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="JSON"):
        a_probe(card={"recall": float("nan")}).save(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def rewritten(**changes):
    def rewrite(folder):
        manifest = json.loads((folder / "probe.json").read_text())
        (folder / "probe.json").write_text(json.dumps(manifest | changes))

    return rewrite


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def with_right_digest(content):
    """Return what puts bytes in the place of a folder's tensors, with the right sum."""

    def replace_tensors(folder):
        (folder / "probe.safetensors").write_bytes(content)
        rewritten(sha256=hashlib.sha256(content).hexdigest())(folder)

    return replace_tensors


def with_tensors(**tensors):
    return with_right_digest(save(tensors))


ONES = np.ones(4, np.float32)
BIAS = ONES[:1]


def test_a_folder_of_an_earlier_release_is_read(folder):
    rewritten(threshold=0.25)(folder)
    assert Probe.load(folder).bias == -1.0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "probe.json").unlink(), "cannot be read"),
        (lambda folder: (folder / "probe.safetensors").unlink(), "cannot be read"),
        (written("probe.json", b'{"format": "rag'), "not JSON"),
        (written("probe.json", b"\xff\xfe\x00"), "not JSON"),
        (written("probe.safetensors", b"abc"), "sha256"),
        (with_right_digest(b"not tensors"), "safetensors"),
        (with_tensors(weight=ONES), "expected tensors"),
        (with_tensors(bias=BIAS, other=ONES), "expected tensors"),
        (with_tensors(weight=ONES * np.nan, bias=BIAS), "must be finite"),
        (with_tensors(weight=np.ones((2, 2)), bias=BIAS), "vector of shape"),
        (written("probe.json", b"[" * 100_000), "not JSON"),
        (written("probe.json", b"null"), "not a probe"),
        (rewritten(format="pickle"), "not a probe"),
        (rewritten(version=99), "upgrade"),
        (rewritten(sha256=None), "sha256"),
        (rewritten(calibration={"margins": {}}), "not a ScoreCalibration"),
        (rewritten(reading=[1]), "expected a reading"),
        (rewritten(reading=None), "layer"),
        (rewritten(reading={"layer": "two"}), "layer"),
        (rewritten(card=[]), "card"),
    ],
)
def test_a_damaged_or_foreign_file_is_a_clear_error(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message) as raised_error:
        Probe.load(folder)
    assert str(folder) in str(raised_error.value)
