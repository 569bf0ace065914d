"""Text for a trained policy: the question's embedding among its features, by any encoder, held fixed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.trained import Features, memory_features
from denoise_core.errors import InputError
from denoise_core.local.batching import positions_of

_LONGEST = 512  # tokens of a text that are read

Embed: TypeAlias = Callable[[list[str]], Any]
"""Texts to an array of shape ``(texts, width)``."""


def with_text(embed: Embed) -> Features:
    """`memory_features` and, after them, the embedding of the question by any text encoder, held fixed.

    ``embed`` takes texts and gives an array of shape ``(texts, width)``: a `TextEncoder` for models of
    transformers, a sentence-transformers model's ``encode``, or anything of that form. Its vectors are brought to
    length 1. It is asked once for each question, as long as that question is among the 4096 last ones. The
    features raise `InputError` for another shape and for numbers that are not finite.
    """

    @lru_cache(4096)
    def vector(text: str) -> NDArray[np.float64]:
        found = np.asarray(embed([text]), dtype=np.float64)
        if found.ndim != 2 or len(found) != 1 or not found.size or not np.isfinite(found).all():
            raise InputError(f"embed: expected finite numbers of shape (1, width), got shape {found.shape}")
        return np.asarray(found[0] / max(float(np.linalg.norm(found)), 1e-12), dtype=np.float64)

    def features(memory: WorkingMemory) -> NDArray[np.float64]:
        return np.concatenate([memory_features(memory), vector(memory.question)])

    return features


class TextEncoder:
    """Texts to the mean of the last layer's states: ``with_text(TextEncoder("google-t5/t5-small"))``.

    ``model`` is a name, a folder, or a loaded model with its ``tokenizer``. A name or folder is loaded at the
    first call, weights as safetensors only. Of an encoder-decoder the encoder is used. The weights stay as they
    are: training learns what to make of the states, it does not tune the encoder. Threads take turns.
    """

    def __init__(self, model: Any, *, tokenizer: Any = None) -> None:
        if not isinstance(model, (str, Path)) and tokenizer is None:
            raise InputError("a loaded model needs its tokenizer: TextEncoder(model, tokenizer=tokenizer)")
        self.model: Any = model
        self.tokenizer: Any = tokenizer
        self._lock = threading.Lock()

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """float32 ``(len(texts), width)``; zeros for a text without tokens. Raises `InputError` for a model that
        cannot be loaded, or one in training mode, whose states differ from call to call."""
        with self._lock:
            self._load()
            if self.model.training:
                raise InputError("the text encoder is in training mode, which is random; call model.eval() first")
            return np.stack([self._mean(text) for text in texts])

    def _load(self) -> None:
        if not isinstance(self.model, (str, Path)):
            return
        name = str(self.model)
        transformers = require("transformers", extra="end")
        try:
            tokenizer = self.tokenizer or transformers.AutoTokenizer.from_pretrained(name)
            model = transformers.AutoModel.from_pretrained(name, use_safetensors=True).eval()
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load {name!r} as a text encoder: {reason}") from error
        self.model, self.tokenizer = model, tokenizer

    def _mean(self, text: str) -> NDArray[np.float32]:
        """One text at a time: without padding a text's states cannot depend on those beside it."""
        torch = require("torch", extra="end")
        config = self.model.config
        room = min(_LONGEST, int(self.tokenizer.model_max_length), positions_of(self.model) or _LONGEST)
        ids = self.tokenizer(text, truncation=True, max_length=room)["input_ids"]
        if not ids:
            return np.zeros(int(config.hidden_size), dtype=np.float32)
        network = self.model.get_encoder() if config.is_encoder_decoder else self.model
        with torch.inference_mode():
            states = network(input_ids=torch.tensor([ids], device=self.model.device)).last_hidden_state[0]
            found: NDArray[np.float32] = states.mean(0).float().cpu().numpy()
        return found
