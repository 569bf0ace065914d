"""A model is in memory once in a process, however many parts and threads ask for it by name."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_models import tiny_pair

from denoise_core import InputError, Message
from denoise_core.end import HiddenReader, LocalLLM
from denoise_core.local import loading
from denoise_core.local.loading import LoadOptions, shared_model

ASKED = (Message("user", "x"),)


@pytest.fixture
def folder(tmp_path):
    for part in tiny_pair():
        part.save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture
def loads(monkeypatch):
    """What is loaded from files: for each time, whether with the head of a language model."""
    heads, real = [], loading.load_model

    def counted(folder, **options):
        heads.append(bool(options.get("has_lm_head")))
        return real(folder, **options)

    monkeypatch.setattr(loading, "load_model", counted)
    return heads


def at_once(call):
    """What each of eight threads gets that begin together."""
    barrier = threading.Barrier(8)

    def begin(_):
        barrier.wait(20)
        return call()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(begin, range(8)))


def test_eight_threads_with_a_model_of_their_own_each_load_once(folder, loads):
    def answer():
        llm = LocalLLM(folder, max_new_tokens=2)
        return llm.complete(ASKED).text, id(llm.model), llm

    answers = at_once(answer)
    assert loads == [True]
    assert len({(text, model_id) for text, model_id, _ in answers}) == 1


@pytest.mark.parametrize("layers", [None, 2])
def test_eight_readers_load_once(folder, loads, layers):
    opened = at_once(lambda: loading.open_backbone(folder, None, LoadOptions(), layers))
    assert loads == [False]
    assert len({id(backbone.partial_forward) for backbone in opened}) == 1
    assert {backbone.block_count for backbone in opened} == {4}


def test_what_differs_is_another_model(folder):
    whole_model = shared_model(folder)
    assert shared_model(str(folder)) is whole_model
    for options in (
        {"layers": 2},
        {"load": LoadOptions(dtype="bfloat16")},
        {"has_lm_head": True},
    ):
        assert shared_model(folder, **options) is not whole_model
    tiny_pair()[0].save_pretrained(folder)  # other files in the same place
    assert shared_model(folder) is not whole_model
    # one's own, to change in place
    assert loading.load_model(folder) is not loading.load_model(folder)


def test_what_holds_no_model_is_refused_with_what_it_lacks(folder, tmp_path):
    empty, half = tmp_path / "empty", tmp_path / "half"
    empty.mkdir()
    half.mkdir()
    (half / "config.json").write_text((folder / "config.json").read_text())
    (weights,) = folder.glob("*.safetensors")
    for place, reason in (
        (empty, "config.json and weights"),
        (half, "weights"),
        (weights, "is a file"),
    ):
        for load in (
            shared_model,
            lambda place: shared_model(place, layers=1),
            lambda place: LocalLLM(place).complete(ASKED),
            lambda place: HiddenReader(str(place)).reading(1),
        ):
            with pytest.raises(InputError, match=reason):
                load(place)


def test_the_whole_cause_of_a_failed_load_is_kept(folder):
    """The first line alone says nothing where the cause has several."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"model_type": "unheard"}))
    with pytest.raises(InputError, match=r"(?s)unheard.*\n.*upgrade") as caught:
        LocalLLM(folder).complete(ASKED)
    assert str(caught.value.__cause__) in str(caught.value)


def test_weights_that_were_left_out_on_purpose_are_not_listed(folder, caplog, capfd):
    loading.load_model(folder, layers=1)
    assert "UNEXPECTED" not in caplog.text + "".join(capfd.readouterr())
