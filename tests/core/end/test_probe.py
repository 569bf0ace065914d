"""A probe scores what it should, refuses what it must, and survives the disk."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from denoise_core import InputError, ProbeMismatch
from denoise_core.end.probe import PROBE_FILES, HiddenStateSpec, Probe, replace_folder
from denoise_core.local.fingerprint import ModelFingerprint

MODEL = ModelFingerprint(
    "tiny/model", "llama", 4, "float32", weights="aa", tokenizer="bb"
)
READING = HiddenStateSpec(MODEL, layer=2, layout="S|C|Q v1")


def a_probe(**changes) -> Probe:
    given = {
        "weight": np.arange(4.0),
        "bias": -1.0,
        "reading": READING,
        "threshold": 0.25,
        "card": {"fit": {"C": 0.1}},
    }
    return Probe(**{**given, **changes})


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


def test_states_with_nan_are_refused_by_row():
    states = np.zeros((3, 4))
    states[1, 1] = np.nan
    with pytest.raises(InputError, match=r"rows \[1\]"):
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
    other_reader = HiddenStateSpec(
        ModelFingerprint(
            "tiny/model", "llama", 4, "float32", weights="cc", tokenizer="bb"
        ),
        3,
        "S|Q|C v1",
    )
    with pytest.raises(ProbeMismatch) as raised_error:
        a_probe().check(other_reader)
    for message_part in (
        "weights",
        "layer: the probe was fitted with 2, this scorer uses 3",
        "layout",
    ):
        assert message_part in str(raised_error.value)
    a_probe().check(READING)


def test_a_saved_probe_comes_back_equal(tmp_path):
    line_probe = a_probe(
        card={
            "fit": {"C": 0.1, "note": "zwölf 🐝 | pipes"},
            "layers": [{"layer": 1, "recall": 0.5}],
        }
    )
    second_run = Probe.load(line_probe.save(tmp_path / "p"))
    assert second_run.weight.tobytes() == line_probe.weight.tobytes()
    assert (
        second_run.bias,
        second_run.reading,
        second_run.threshold,
        second_run.card,
    ) == (
        -1.0,
        READING,
        0.25,
        line_probe.card,
    )
    assert {passage.name for passage in (tmp_path / "p").iterdir()} == {
        "probe.safetensors",
        "probe.json",
        "README.md",
    }
    assert "zwölf 🐝 | pipes" in (tmp_path / "p" / "README.md").read_text(
        encoding="utf-8"
    )


def test_saving_again_replaces_the_old_probe_and_leaves_nothing_else(tmp_path):
    a_probe().save(tmp_path / "p")
    a_probe(bias=5.0).save(tmp_path / "p")
    assert Probe.load(tmp_path / "p").bias == 5.0
    assert [passage.name for passage in tmp_path.iterdir()] == ["p"]


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        a_probe().save(tmp_path)
    assert [passage.name for passage in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_somebody_put_there_meanwhile_is_not_touched(tmp_path):
    a_probe().save(tmp_path / "p")

    def filling():
        with replace_folder(tmp_path / "p", own_names=frozenset(PROBE_FILES)):
            (tmp_path / "p" / "notes.txt").write_text("an hour of work")

    with pytest.raises(InputError, match=r"notes\.txt"):
        filling()
    assert (tmp_path / "p" / "notes.txt").exists()


def test_an_interrupted_save_leaves_the_old_probe(tmp_path):
    a_probe().save(tmp_path / "p")

    def interrupted():
        with replace_folder(tmp_path / "p", own_names=frozenset(PROBE_FILES)) as stage:
            (stage / "probe.json").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Probe.load(tmp_path / "p").bias == -1.0
    assert [passage.name for passage in tmp_path.iterdir()] == ["p"]


def test_a_card_that_is_no_json_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="JSON"):
        a_probe(card={"recall": float("nan")}).save(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def _rewrite(probe_folder, **changes):
    manifest = json.loads((probe_folder / "probe.json").read_text())
    (probe_folder / "probe.json").write_text(json.dumps({**manifest, **changes}))


DAMAGE = {
    "no manifest": (
        lambda target_folder: (target_folder / "probe.json").unlink(),
        "cannot be read",
    ),
    "no tensors": (
        lambda target_folder: (target_folder / "probe.safetensors").unlink(),
        "cannot be read",
    ),
    "manifest cut short": (
        lambda target_folder: (target_folder / "probe.json").write_text(
            '{"format": "rag'
        ),
        "not JSON",
    ),
    "manifest not text": (
        lambda target_folder: (target_folder / "probe.json").write_bytes(
            b"\xff\xfe\x00"
        ),
        "not JSON",
    ),
    "tensors cut short": (
        lambda target_folder: (target_folder / "probe.safetensors").write_bytes(b"abc"),
        "sha256",
    ),
    "another format": (
        lambda target_folder: _rewrite(target_folder, format="pickle"),
        "not a probe",
    ),
    "a newer version": (
        lambda target_folder: _rewrite(target_folder, version=99),
        "upgrade",
    ),
    "no reading": (
        lambda target_folder: _rewrite(target_folder, reading=None),
        "layer",
    ),
    "a layer that is no number": (
        lambda target_folder: _rewrite(target_folder, reading={"layer": "two"}),
        "layer",
    ),
    "a card that is no object": (
        lambda target_folder: _rewrite(target_folder, card=[]),
        "card",
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_or_foreign_file_is_a_clear_error(tmp_path, how):
    damage, message_part = DAMAGE[how]
    damage(a_probe().save(tmp_path / "p") and tmp_path / "p")
    with pytest.raises(InputError, match=message_part) as raised_error:
        Probe.load(tmp_path / "p")
    assert str(tmp_path / "p") in str(raised_error.value)


def test_a_file_that_only_claims_to_be_safetensors_is_a_clear_error(tmp_path):
    import hashlib

    probe_folder = a_probe().save(tmp_path / "p")
    (probe_folder / "probe.safetensors").write_bytes(b"not tensors")
    _rewrite(probe_folder, sha256=hashlib.sha256(b"not tensors").hexdigest())
    with pytest.raises(InputError, match="safetensors"):
        Probe.load(probe_folder)
