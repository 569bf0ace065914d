"""The shipped weights as an `LLM`."""

from __future__ import annotations

from pathlib import Path

from denoise_core.local.generation.llm import LocalLLM

FOLDER = Path(__file__).parent / "data" / "model"
"""A folder that ``AutoModelForCausalLM`` and ``AutoTokenizer`` load; no custom code."""


def reader(*, max_new_tokens: int = 128, temperature: float = 0.0, seed: int | None = None) -> LocalLLM:
    """The shipped reader, loaded at the first call; settings as in `LocalLLM`.

    Its ``model`` and ``tokenizer``, once loaded, serve END as well, so that the weights are in memory once.
    """
    return LocalLLM(FOLDER, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
