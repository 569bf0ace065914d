"""The reader's network in NumPy: no torch where questions are answered.

MiniLM-L6 (six layers of 384, twelve heads) with what training changed merged into its weights when it is
loaded. `fit.network` is the same in torch; a test holds the two together within 1e-4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.embedded.reader.features import Batch, Row, batch, by_length
from denoise_core.embedded.reader.spans import Logits

Floats = NDArray[np.float32]

WIDTH, LAYERS, HEADS = 384, 6, 12
EACH = WIDTH // HEADS
SCALE = 2.0  # of the low-rank changes, as in training
PIECES = 1024  # of one pass, padding included: what stays in a core's cache
BLOCK = 64  # rows of an element-wise step
# The error function of x / sqrt(2) as tanh of x times a polynomial of x * x, fitted on [0, 6].
_BEND = tuple(map(np.float32, (7.97690099e-01, 3.67308348e-02, -2.55103970e-04, -8.60740114e-06)))
_BOUND, _HALF = np.float32(30), np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer, ``(in, out)`` and merged; norms are scale and shift."""

    qkv: tuple[Floats, Floats]
    out: tuple[Floats, Floats]
    up: tuple[Floats, Floats]
    down: tuple[Floats, Floats]
    mixed: tuple[Floats, Floats]
    fed: tuple[Floats, Floats]


class Network:
    """``base`` are MiniLM's weights by name, ``trained`` what `fit.network.Network.trained` gave.

    Holds no state but weights, so threads may share it.
    """

    def __init__(self, base: Mapping[str, NDArray[Any]], trained: Mapping[str, NDArray[Any]]) -> None:
        own = {name: np.asarray(value, dtype=np.float32) for name, value in trained.items()}
        word = base["embeddings.position_embeddings.weight"] + base["embeddings.token_type_embeddings.weight"][0]
        self.words, self.place = _f32(base["embeddings.word_embeddings.weight"]), _f32(word)
        self.norm = _f32(base["embeddings.LayerNorm.weight"]), _f32(base["embeddings.LayerNorm.bias"])
        self.layers = [_layer(base, own, i) for i in range(LAYERS)]
        self.marked_from = next(i for i in range(LAYERS) if f"layers.{i}.qkv.a" in own)
        self.marks = own["marks"]
        self.span = _f32(own["span.weight"].T), own["span.bias"]
        self.hidden = _f32(own["hidden.weight"].T), own["hidden.bias"]
        self.holds = _f32(own["holds.weight"].T), own["holds.bias"]

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
        h = _normed(h, self.norm)
        hidden = None if given.real.all() else np.where(given.real, 0, -1e4).astype(np.float32)[:, None, None, :]
        for number, layer in enumerate(self.layers):
            if number == self.marked_from:
                h += self.marks[given.marks.reshape(-1)]
            h = _through(layer, h, rows, length, hidden)
        span = (h @ self.span[0] + self.span[1]).reshape(rows, length, 2)
        first = h.reshape(rows, length, WIDTH)[:, 0]
        holds = _gelu(first @ self.hidden[0] + self.hidden[1]) @ self.holds[0] + self.holds[1]
        return span[..., 0], span[..., 1], holds[:, 0]


def load(folder: Path, trained: Path) -> Network:
    """The network of MiniLM's folder and of the file that training wrote."""
    read = require("safetensors.numpy", extra="embedded").load_file
    return Network(read(folder / "model.safetensors"), read(trained))


def _layer(base: Mapping[str, NDArray[Any]], own: Mapping[str, Floats], number: int) -> Layer:
    prefix = f"encoder.layer.{number}"

    def product(name: str, *parts: str) -> tuple[Floats, Floats]:
        weight = np.concatenate([base[f"{prefix}.{p}.weight"] for p in parts])
        bias = np.concatenate([base[f"{prefix}.{p}.bias"] for p in parts])
        if (key := f"layers.{number}.{name}") + ".a" in own:
            weight = weight + SCALE * own[f"{key}.b"] @ own[f"{key}.a"]
        return _f32(weight.T), _f32(bias)

    def norm(place: int, name: str) -> tuple[Floats, Floats]:
        weight = own.get(f"layers.{number}.norms.{place}", base[f"{prefix}.{name}.weight"])
        return _f32(weight), _f32(own.get(f"layers.{number}.norms.{place + 1}", base[f"{prefix}.{name}.bias"]))

    return Layer(
        qkv=product("qkv", "attention.self.query", "attention.self.key", "attention.self.value"),
        out=product("out", "attention.output.dense"),
        up=product("up", "intermediate.dense"),
        down=product("down", "output.dense"),
        mixed=norm(0, "attention.output.LayerNorm"),
        fed=norm(2, "output.LayerNorm"),
    )


def _through(layer: Layer, h: Floats, rows: int, length: int, hidden: Floats | None) -> Floats:
    """One layer: states ``(rows * length, 384)`` in and out."""
    joined = h @ layer.qkv[0]
    joined += layer.qkv[1]
    q, k, v = joined.reshape(rows, length, 3, HEADS, EACH).transpose(2, 0, 3, 1, 4)
    weight = np.matmul(q * np.float32(EACH**-0.5), k.transpose(0, 1, 3, 2))
    if hidden is not None:
        weight += hidden
    weight -= weight.max(-1, keepdims=True)
    np.exp(weight, out=weight)
    weight /= weight.sum(-1, keepdims=True)
    seen = np.matmul(weight, v).transpose(0, 2, 1, 3).reshape(rows * length, WIDTH)
    out = seen @ layer.out[0]
    out += layer.out[1]
    out += h
    h = _normed(out, layer.mixed)
    wide = h @ layer.up[0]
    wide += layer.up[1]
    out = _gelu(wide) @ layer.down[0]
    out += layer.down[1]
    out += h
    return _normed(out, layer.fed)


def _gelu(x: Floats) -> Floats:
    """GELU in place, ``(rows, width)``: within 1.2e-5 of the one with the error function, which NumPy lacks.

    Some rows at a time, so that all steps find them in the core's cache.
    """
    square = np.empty((min(BLOCK, len(x)), x.shape[1]), dtype=np.float32)
    inner = np.empty_like(square)
    for start in range(0, len(x), BLOCK):
        part = x[start : start + BLOCK]
        y, p = square[: len(part)], inner[: len(part)]
        np.multiply(part, part, out=y)
        np.minimum(y, _BOUND, out=y)
        np.multiply(y, _BEND[3], out=p)
        for term in (_BEND[2], _BEND[1]):
            p += term
            p *= y
        p += _BEND[0]
        p *= part
        np.tanh(p, out=p)
        p += 1
        p *= _HALF
        part *= p
    return x


def _normed(x: Floats, norm: tuple[Floats, Floats]) -> Floats:
    """Layer norm over the last axis, in place."""
    x -= x.mean(-1, keepdims=True)
    spread = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1])
    x /= np.sqrt(spread + np.float32(1e-12))
    x *= norm[0]
    x += norm[1]
    return x


def _f32(values: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
