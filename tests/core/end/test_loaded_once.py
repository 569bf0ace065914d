"""A model is in memory once in a process, however many parts and threads ask for it by name."""

import gc
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
    """What is loaded from files, one name for each time."""
    actual, real = [], loading.load_model

    def counted(case_name, **how):
        actual.append("AutoModelForCausalLM" if how.get("has_lm_head") else "AutoModel")
        return real(case_name, **how)

    monkeypatch.setattr(loading, "load_model", counted)
    return actual


def at_once(call, number=8):
    """What each of so many threads gets that begin together."""
    batched_states = threading.Barrier(number)

    def one(_):
        batched_states.wait(20)
        return call()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def test_eight_threads_with_a_model_of_their_own_each_load_once(folder, loads):
    def answered():
        local_llm = LocalLLM(folder, max_new_tokens=2)
        return local_llm.complete(ASKED).text, local_llm.model

    actual = at_once(answered)
    assert loads == ["AutoModelForCausalLM"]
    assert len({id(tiny_model) for _, tiny_model in actual}) == 1
    assert len({input_text for input_text, _ in actual}) == 1


@pytest.mark.parametrize("layers", [None, 2])
def test_eight_readers_load_once(folder, loads, layers):
    actual = at_once(lambda: loading.open_backbone(folder, None, LoadOptions(), layers))
    assert loads == ["AutoModel"]
    assert len({id(body_item.partial_forward) for body_item in actual}) == 1
    assert {body_item.block_count for body_item in actual} == {
        loading.load_model(folder).config.num_hidden_layers
    }


def test_readers_of_one_folder_share_it(folder, loads):
    readers = [HiddenReader(str(folder)) for _ in range(4)]
    turns = iter(readers)
    actual = at_once(lambda: next(turns).backbone, 4)
    assert loads == ["AutoModel"]
    assert len({id(body_item.model) for body_item in actual}) == 1


def test_what_differs_is_another_model(folder, loads):
    whole_model = shared_model(folder)
    assert shared_model(folder, layers=2) is not whole_model
    assert shared_model(folder, load=LoadOptions(dtype="bfloat16")) is not whole_model
    assert shared_model(folder, has_lm_head=True) is not whole_model
    assert shared_model(str(folder)) is whole_model
    tiny_pair()[0].save_pretrained(folder)  # other files in the same place
    assert shared_model(folder) is not whole_model
    assert loading.load_model(folder) is not loading.load_model(
        folder
    )  # one's own, to change in place


def test_what_nobody_uses_is_let_go(folder, loads):
    for _ in range(2):
        tiny_model = shared_model(folder)
        del tiny_model
        gc.collect()
    assert len(loads) == 2


def test_what_holds_no_model_is_refused_with_what_it_lacks(folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (weights,) = folder.glob("*.safetensors")
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_text((folder / "config.json").read_text())
    cases = [
        (empty, "config.json and weights"),
        (half, "weights"),
        (weights, "is a file"),
    ]
    for place, reason in cases:
        for layers in (None, 1):
            with pytest.raises(InputError, match=reason):
                shared_model(place, layers=layers)
        with pytest.raises(InputError, match=reason):
            LocalLLM(place).complete(ASKED)
        with pytest.raises(InputError, match=reason):
            HiddenReader(str(place)).reading(1)


def test_the_whole_cause_of_a_failed_load_is_kept(folder):
    """The first line alone says nothing where the cause has several."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard"}))
    with pytest.raises(InputError, match=r"(?s)unheard.*\n.*upgrade") as caught:
        LocalLLM(folder).complete(ASKED)
    assert str(caught.value.__cause__) in str(caught.value)


def test_weights_that_were_left_out_on_purpose_are_not_listed(folder, caplog, capfd):
    loading.load_model(folder, layers=1)
    assert "UNEXPECTED" not in caplog.text + "".join(capfd.readouterr())
