"""A model's folder may name Python of its own: it is never run, whatever the terminal answers."""

import json

import pytest

from denoise_core.local.loading import LoadOptions, load_model, load_tokenizer

CODE = """
from pathlib import Path
from transformers import PretrainedConfig, PreTrainedModel

Path({marker!r}).write_text("it ran")


class OwnConfig(PretrainedConfig):
    model_type = "own"


class OwnModel(PreTrainedModel):
    config_class = OwnConfig
"""


@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_code_in_a_models_folder_is_not_run(load, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    marker = tmp_path / "marker"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    classes = {
        "AutoConfig": "own.OwnConfig",
        "AutoModel": "own.OwnModel",
        "AutoTokenizer": ["own.OwnTokenizer", None],
    }
    config = {"model_type": "own", "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    arguments = {"load": LoadOptions()} if load is load_model else {}
    with pytest.raises((ValueError, OSError)):
        load(folder, **arguments)
    assert not marker.exists()
