"""The reader's network in NumPy: no torch where questions are answered.

MiniLM-L6 (six layers of 384, twelve heads) with what training changed merged into its weights when it is
loaded. `fit.network` is the same in torch; a test holds the two together within 1e-4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.minilm import LAYERS, WIDTH, Layer, f32, gelu, normed, through
from denoise_core.embedded.reader.features import Batch, Row, batch, by_length
from denoise_core.embedded.reader.spans import Logits

Floats = NDArray[np.float32]

SCALE = 2.0  # of the low-rank changes, as in training
PIECES = 1024  # of one pass, padding included: what stays in a core's cache


class Network:
    """``base`` are MiniLM's weights by name, ``trained`` what `fit.network.Network.trained` gave.

    Holds no state but weights, so threads may share it.
    """

    def __init__(self, base: Mapping[str, NDArray[Any]], trained: Mapping[str, NDArray[Any]]) -> None:
        own = {name: np.asarray(value, dtype=np.float32) for name, value in trained.items()}
        word = base["embeddings.position_embeddings.weight"] + base["embeddings.token_type_embeddings.weight"][0]
        self.words, self.place = f32(base["embeddings.word_embeddings.weight"]), f32(word)
        self.norm = f32(base["embeddings.LayerNorm.weight"]), f32(base["embeddings.LayerNorm.bias"])
        self.layers = [_layer(base, own, i) for i in range(LAYERS)]
        self.marked_from = next(i for i in range(LAYERS) if f"layers.{i}.qkv.a" in own)
        self.marks = own["marks"]
        self.span = f32(own["span.weight"].T), own["span.bias"]
        self.hidden = f32(own["hidden.weight"].T), own["hidden.bias"]
        self.holds = f32(own["holds.weight"].T), own["holds.bias"]

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        """What the network says of each row's window, in the order of the rows. A row's logits do not depend
        on the others beyond rounding."""
        out: list[Logits | None] = [None] * len(rows)
        for numbers in by_length(rows, PIECES):
            start, end, holds = self(batch([rows[i] for i in numbers]))
            for n, i in enumerate(numbers):
                inside = slice(rows[i].start, rows[i].end)
                out[i] = Logits(start[n, inside], end[n, inside], float(holds[n]))
        return [x for x in out if x is not None]

    def __call__(self, given: Batch) -> tuple[Floats, Floats, Floats]:
        """Start and end logits ``(rows, length)``, meaningful inside of windows only, and presence ``(rows,)``."""
        rows, length = given.ids.shape
        h = (self.words[given.ids] + self.place[:length]).reshape(-1, WIDTH)
        h = normed(h, self.norm)
        hidden = None if given.real.all() else np.where(given.real, 0, -1e4).astype(np.float32)[:, None, None, :]
        for number, layer in enumerate(self.layers):
            if number == self.marked_from:
                h += self.marks[given.marks.reshape(-1)]
            h = through(layer, h, rows, length, hidden)
        span = (h @ self.span[0] + self.span[1]).reshape(rows, length, 2)
        first = h.reshape(rows, length, WIDTH)[:, 0]
        holds = gelu(first @ self.hidden[0] + self.hidden[1]) @ self.holds[0] + self.holds[1]
        return span[..., 0], span[..., 1], holds[:, 0]


def _layer(base: Mapping[str, NDArray[Any]], own: Mapping[str, Floats], number: int) -> Layer:
    prefix = f"encoder.layer.{number}"

    def product(name: str, *parts: str) -> tuple[Floats, Floats]:
        weight = np.concatenate([base[f"{prefix}.{p}.weight"] for p in parts])
        bias = np.concatenate([base[f"{prefix}.{p}.bias"] for p in parts])
        if (key := f"layers.{number}.{name}") + ".a" in own:
            weight = weight + SCALE * own[f"{key}.b"] @ own[f"{key}.a"]
        return f32(weight.T), f32(bias)

    def norm(place: int, name: str) -> tuple[Floats, Floats]:
        weight = own.get(f"layers.{number}.norms.{place}", base[f"{prefix}.{name}.weight"])
        return f32(weight), f32(own.get(f"layers.{number}.norms.{place + 1}", base[f"{prefix}.{name}.bias"]))

    return Layer(
        qkv=product("qkv", "attention.self.query", "attention.self.key", "attention.self.value"),
        out=product("out", "attention.output.dense"),
        up=product("up", "intermediate.dense"),
        down=product("down", "output.dense"),
        mixed=norm(0, "attention.output.LayerNorm"),
        fed=norm(2, "output.LayerNorm"),
    )
