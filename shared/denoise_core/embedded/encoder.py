"""Question and passages read apart by a sentence encoder: cosine of the whole, and of the best-matching words.

One pass gives both signals. ``cosine`` is that of the mean-pooled last layer, the model's own embedding.
``maxsim`` is late interaction (Khattab and Zaharia, ColBERT, section 3): for each word piece of the question
the best cosine among those of the passage, averaged with the weight of how rare the piece is in the list.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.local.batching import batches, windows
from denoise_core.local.positions import positions_of

Floats = NDArray[np.float32]

MAX_QUERY = 128  # word pieces; longer questions are cut for these two signals
MAX_TOKENS = 4096  # of a batch, padding included


class SentenceEncoder:
    """A BERT-like sentence encoder; loads at the first use and serves threads one batch at a time.

    ``name`` is what the model goes by, in the fingerprint of a probe that is fitted on it; None for its folder.
    """

    names = ("cosine", "maxsim")
    listwise = True  # the weights of maxsim come from the list

    def __init__(self, folder: Path, *, name: str | None = None) -> None:
        self.folder = folder
        self.name = name
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.RLock()

    @property
    def model(self) -> Any:
        """The encoder, an object of transformers."""
        return self._load()[0]

    @property
    def tokenizer(self) -> Any:
        return self._load()[1]

    def signals(self, query: str, texts: Sequence[str]) -> Floats:
        """float32 ``(len(texts), 2)``: cosine and maxsim, both -1 to 1.

        A text longer than the model's window is read in parts, and each signal is its best part's.
        """
        torch = require("torch", extra="end")
        with self._lock, torch.inference_mode():
            asked = self._pieces([query])[0][:MAX_QUERY]
            pieces = self._pieces(texts)
            rarity = torch.tensor(idf(asked, pieces))
            question = self._states([asked])[0]
            rows = [(i, part) for i, p in enumerate(pieces) for part in windows(p, self._room)]
            out = np.full((len(texts), 2), -np.inf, dtype=np.float32)
            for batch in batches([len(part) + 2 for _, part in rows], MAX_TOKENS):
                for r, states in zip(batch, self._states([rows[r][1] for r in batch]), strict=True):
                    found = _cosine(question, states), _maxsim(question, states, rarity)
                    out[rows[r][0]] = np.maximum(out[rows[r][0]], found)
            return out

    def vectors(self, texts: Sequence[str]) -> Floats:
        """The model's own embeddings: mean-pooled, of length 1, float32 ``(len(texts), width)``.

        A text longer than the window is embedded by its beginning, as the model's own library does.
        """
        torch = require("torch", extra="end")
        with self._lock, torch.inference_mode():
            pieces = [p[: self._room] for p in self._pieces(texts)]
            out = np.zeros((len(texts), int(self.model.config.hidden_size)), dtype=np.float32)
            for batch in batches([len(p) + 2 for p in pieces], MAX_TOKENS):
                for i, states in zip(batch, self._states([pieces[i] for i in batch]), strict=True):
                    out[i] = torch.nn.functional.normalize(states.mean(0), dim=0).numpy()
            return out

    def count(self, text: str) -> int:
        """Word pieces of a text, without the special ones."""
        return len(self._pieces([text])[0]) if text else 0

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                transformers = require("transformers", extra="end")
                tokenizer = transformers.AutoTokenizer.from_pretrained(str(self.folder))
                model = transformers.AutoModel.from_pretrained(str(self.folder), use_safetensors=True)
                model.name_or_path = self.name or str(self.folder)
                self._loaded = model.eval(), tokenizer
            return self._loaded

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without special ones."""
        if not texts:
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(row) for row in ids]

    @property
    def _room(self) -> int:
        """Word pieces that fit between the special ones."""
        return (positions_of(self.model) or MAX_TOKENS) - 2

    def _states(self, rows: Sequence[Sequence[int]]) -> list[Any]:
        """Last-layer states of each row between its special tokens: ``(pieces + 2, width)`` each."""
        torch = require("torch", extra="end")
        model, tokenizer = self._load()
        width = max(map(len, rows)) + 2
        ids = torch.full((len(rows), width), int(tokenizer.pad_token_id))
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row) + 2] = torch.tensor([tokenizer.cls_token_id, *row, tokenizer.sep_token_id])
            mask[i, : len(row) + 2] = 1
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        return [states[i, : len(row) + 2] for i, row in enumerate(rows)]


def idf(asked: Sequence[int], pieces: Sequence[Sequence[int]]) -> Floats:
    """How rare each piece of the question is among the texts, as in BM25; shape ``(len(asked),)``."""
    sets = [set(p) for p in pieces]
    found = np.array([sum(piece in s for s in sets) for piece in asked], dtype=np.float32)
    return np.asarray(np.log(1 + (len(sets) - found + 0.5) / (found + 0.5)), dtype=np.float32)


def _cosine(question: Any, states: Any) -> float:
    torch = require("torch", extra="end")
    return float(torch.nn.functional.cosine_similarity(question.mean(0), states.mean(0), dim=0))


def _maxsim(question: Any, states: Any, rarity: Any) -> float:
    torch = require("torch", extra="end")
    asked, found = question[1:-1], states[1:-1]
    if not len(asked) or not len(found):
        return 0.0
    unit = torch.nn.functional.normalize
    best = (unit(asked, dim=-1) @ unit(found, dim=-1).T).amax(-1)
    return float((best * rarity).sum() / rarity.sum().clamp(min=1e-6))
