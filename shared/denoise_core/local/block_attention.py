"""Attention of a question to passages that were read alone: block attention, from the first layers.

Each passage is read once, behind the prompt's beginning and without its neighbours, at
the same positions. Its keys and values therefore depend on no other passage and no
question, and are kept in a `PrefixCache`. The question's tokens then run over all passages
in one step, and their attention is read off: a matrix of the question's rows, never one of
all tokens by all tokens. BlockRank (arXiv 2510.05396) trains models for this mask; here it
is used as it is.

The last block of a pass stops early: at its keys when passages are read, at its attention
in the question's step. That step's mask is written here, because a model's own window
masks count places in the cache. So no prompt is longer than the model's attention window
(`attention_window`), and within it a window hides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from denoise_core.errors import InputError
from denoise_core.local.blocks import KeyValuePair
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.kv_cache.prefix_reader import PrefixReader
from denoise_core.local.kv_cache.recording import (
    NO_PREFIX,
    PlaceholderCache,
    make_cache,
)
from denoise_core.local.partial_forward import (
    PartialForward,
    StopForward,
    current_request,
)

WeightsByBlock = dict[int, torch.Tensor]
Reduction = Callable[[torch.Tensor], torch.Tensor]

_SOFTMAX_FUNCTIONS = frozenset(
    {functional.softmax, torch.softmax, torch.Tensor.softmax}
)
TOP_ROWS = 3  # of the question's tokens
# Keys of the trial must exceed a window that a model counts by itself, unseen.
_MAX_TRIAL_WINDOW = 512


@dataclass(frozen=True, slots=True)
class BlockPrompt:
    """A question over passages, as token ids.

    Attributes:
        head: The prompt's beginning, before every passage.
        passages: The passages' own ids.
        tail: What comes after them: the layout's words, the question, the answer's
            beginning.
    """

    head: tuple[int, ...]
    passages: tuple[tuple[int, ...], ...]
    tail: tuple[int, ...]

    @property
    def tail_start(self) -> int:
        """Position of the tail's first token: behind the longest passage."""
        longest_passage = max(map(len, self.passages), default=0)
        return len(self.head) + longest_passage


def attention_window(partial_forward: PartialForward) -> int | None:
    """Tokens of a prompt in which every token sees all before it; None without a limit."""
    config = partial_forward.config
    limits = [partial_forward.max_positions]
    layer_types = set(getattr(config, "layer_types", None) or ())
    has_window = getattr(config, "use_sliding_window", True)
    if has_window and layer_types != {"full_attention"}:
        for name in ("sliding_window", "attention_chunk_size", "window_size"):
            limit = getattr(config, name, None)
            limits.append(limit)
    known_limits = [int(limit) for limit in limits if limit]
    return min(known_limits, default=None)


class BlockAttention(PrefixReader):
    """One model's use of block attention. Call under the model's lock."""

    def check(self, layer: int) -> None:
        """Raises `InputError` with the reason when this model's attention cannot be read like this."""
        reason = self.find_problem(layer)
        if reason is not None:
            raise InputError(
                f"attention heads of {type(self.partial_forward.decoder).__name__} cannot be read: {reason}"
            )

    def attend(
        self, prompt: BlockPrompt, blocks: Sequence[int], reduction: Reduction
    ) -> WeightsByBlock:
        """The attention of the tail's rows in each of ``blocks``, counted from 0.

        Args:
            prompt: A question over passages.
            blocks: Where attention is read.
            reduction: Called with each block's weights, float32 ``(heads, rows, keys)``.
                Keys are those of the head, of the passages in order, and of the tail.

        Returns:
            What ``reduction`` made of them.
        """
        layer = max(blocks) + 1
        (head,) = self.read_prefixes(NO_PREFIX, (), [prompt.head], layer)
        passages = self.read_prefixes(head, prompt.head, prompt.passages, layer)
        self.tokens_run += len(prompt.tail)
        past_tokens = head.tokens + sum(passage.tokens for passage in passages)
        tail_end = prompt.tail_start + len(prompt.tail)
        inputs = _pass_inputs(
            self.partial_forward,
            prompt.tail,
            range(prompt.tail_start, tail_end),
            _causal_mask(self.partial_forward, past_tokens, len(prompt.tail)),
        )
        # Blocks from ``layer`` on never run, but masks are made for them too.
        cache_layers = [
            PlaceholderCache(past_tokens)
        ] * self.partial_forward.block_count
        prefixes = [prefix for prefix in (head, *passages) if prefix.tokens]
        for block in range(layer):
            past = [prefix.blocks[block] for prefix in prefixes]
            cache_layers[block] = _JoinedLayer(past, past_tokens)
        inputs["past_key_values"] = make_cache(cache_layers)
        inputs["use_cache"] = True
        return read_attention(self.partial_forward, inputs, blocks, reduction)

    def _try_layer(self, layer: int) -> str | None:
        return _compare_trial(self.partial_forward, layer)


class _JoinedLayer(PlaceholderCache):
    """A cache layer of one row: the keys and values of several texts, one after the other, before the new ones."""

    def __init__(self, past: Sequence[KeyValuePair], length: int) -> None:
        super().__init__(length)
        self.past = past

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> KeyValuePair:
        all_keys = [keys[None] for keys, _ in self.past]
        all_values = [values[None] for _, values in self.past]
        return (
            torch.cat([*all_keys, key_states], dim=-2),
            torch.cat([*all_values, value_states], dim=-2),
        )


@torch.inference_mode()
def read_attention(
    partial_forward: PartialForward,
    inputs: dict[str, Any],
    blocks: Sequence[int],
    reduction: Reduction,
) -> WeightsByBlock:
    """What ``reduction`` makes of the attention in ``blocks``, from one pass of one row."""
    reader = AttentionReader(blocks, inputs["attention_mask"].shape[-2:], reduction)
    with reader:
        partial_forward.run_pass(inputs, max(blocks) + 1, {})
    return reader.checked_weights()


def _pass_inputs(
    partial_forward: PartialForward,
    ids: Sequence[int],
    positions: Sequence[int],
    mask: torch.Tensor,
) -> dict[str, Any]:
    if not partial_forward.accepts_argument("position_ids"):
        raise InputError("its forward pass takes no position ids")
    device = partial_forward.device
    return {
        "input_ids": torch.tensor([ids], device=device),
        "position_ids": torch.tensor([positions], device=device),
        "attention_mask": mask.to(device),
    }


def _causal_mask(
    partial_forward: PartialForward, past_tokens: int, new_tokens: int
) -> torch.Tensor:
    """Additive: new tokens see everything before them, ``(1, 1, new, past + new)``."""
    dtype = getattr(torch, partial_forward.dtype)
    hidden_value = torch.finfo(dtype).min
    hidden = torch.full((new_tokens, new_tokens), hidden_value, dtype=dtype)
    mask = torch.zeros(new_tokens, past_tokens + new_tokens, dtype=dtype)
    mask[:, past_tokens:] = hidden.triu(1)
    return mask[None, None]


def passage_attention(
    weights: torch.Tensor, prompt: BlockPrompt, question_rows: tuple[int, int]
) -> torch.Tensor:
    """What each head's question tokens give each passage.

    Each question token's attention is summed over the passage's tokens, and the largest
    `TOP_ROWS` sums are averaged: a head finds a passage by a few words of the question.
    The rows before the question have seen the passages and the layout's words alone, so
    their mean, subtracted, is the calibration under a question without content that ICR
    (arXiv 2410.02642, section 3) takes a second pass for.

    Args:
        weights: ``(heads, rows, keys)`` of `BlockAttention.attend`.
        prompt: Where the keys' passages are.
        question_rows: Half-open range of rows; all rows when it is empty.

    Returns:
        ``(heads, passages)``.
    """
    lengths = [len(ids) for ids in prompt.passages]
    passage_keys = weights.narrow(-1, len(prompt.head), sum(lengths))
    passage_parts = torch.split(passage_keys, lengths, dim=-1)
    passage_sums = torch.stack([part.sum(-1) for part in passage_parts], dim=-1)
    start, end = question_rows
    if start == end:
        start, end = 0, weights.shape[1]
    question_sums = passage_sums[:, start:end]
    row_count = min(TOP_ROWS, end - start)
    top_sums = question_sums.topk(row_count, dim=1).values
    attention = top_sums.mean(1)
    if start > 0:
        attention = attention - passage_sums[:, :start].mean(1)
    return attention


class AttentionReader(TorchFunctionMode):
    """Reads attention weights off a pass, whatever computes them; in one thread alone.

    transformers computes attention by one of two torch functions, unless a fused kernel
    does it: the scaled dot product, whose weights are computed here from its arguments,
    and softmax. The last block's pass ends there (`StopForward`).
    """

    def __init__(
        self, blocks: Sequence[int], shape: Sequence[int], reduction: Reduction
    ) -> None:
        super().__init__()
        self.blocks = frozenset(blocks)
        self.rows, self.keys = shape
        self.reduction = reduction
        self.weights: WeightsByBlock = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            if self._current_block() is not None:
                self._keep_weights(_product_weights(*args, **kwargs))
            return func(*args, **kwargs)
        output = func(*args, **kwargs)
        if func in _SOFTMAX_FUNCTIONS and self._current_block() is not None:
            self._keep_weights(output)
        return output

    def checked_weights(self) -> WeightsByBlock:
        """The weights. Raises `InputError` when a block was not seen."""
        missing_blocks = sorted(self.blocks - self.weights.keys())
        if missing_blocks:
            raise InputError(
                f"blocks {missing_blocks} compute attention in a kernel that shows no weights, or have none; "
                'load the model with attention="sdpa" or "eager"'
            )
        return self.weights

    def _current_block(self) -> int | None:
        """The block that is running, if its weights are wanted."""
        request = current_request.get()
        if request is None:
            return None
        block = request.entered - 1
        if block not in self.blocks or block in self.weights:
            return None
        return block

    def _keep_weights(self, weights: torch.Tensor) -> None:
        # Some models put one more key, an attention sink, at the end.
        is_attention = (
            weights.ndim == 4
            and weights.shape[-2] == self.rows
            and weights.shape[-1] in (self.keys, self.keys + 1)
        )
        block = self._current_block()
        if not is_attention or block is None:
            return
        with torch._C.DisableTorchFunction():
            key_weights = weights[0, :, :, : self.keys]
            self.weights[block] = self.reduction(key_weights.float())
        if block == max(self.blocks):
            raise StopForward


def _product_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    """The weights that scaled_dot_product_attention uses, in float32."""
    if attn_mask is None or attn_mask.shape[-1] != key.shape[-2]:
        raise InputError("the model replaces the mask it is given")
    group_size = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(group_size, dim=1)
    factor = scale
    if factor is None:
        factor = query.shape[-1] ** -0.5
    with torch._C.DisableTorchFunction():
        logits = query.float() @ key.float().transpose(-1, -2) * factor
        return torch.softmax(logits + attn_mask.float(), dim=-1)


def _compare_trial(partial_forward: PartialForward, layer: int) -> str | None:
    """Why block attention differs from one masked pass over all tokens; None when it does not."""
    window = attention_window(partial_forward) or 0
    repeats = 1
    if window <= _MAX_TRIAL_WINDOW:
        repeats += window // 13
    generator = torch.Generator().manual_seed(2)
    vocabulary = int(partial_forward.config.vocab_size)

    def sample_ids(count: int) -> tuple[int, ...]:
        sampled_ids = torch.randint(vocabulary, (count,), generator=generator)
        return tuple(sampled_ids.tolist())

    passages = tuple(sample_ids(count) for count in [8, 5] * repeats)
    prompt = BlockPrompt(sample_ids(3), passages, sample_ids(4))
    cache = PrefixCache(1 << 30)
    reading = BlockAttention(partial_forward, cache, lambda layer: layer, 1 << 12)
    actual = reading.attend(prompt, range(layer), lambda weights: weights)
    inputs = _masked_inputs(partial_forward, prompt)
    expected = read_attention(
        partial_forward,
        inputs,
        range(layer),
        lambda weights: weights[:, -len(prompt.tail) :],
    )
    tolerance = 5e-2
    if partial_forward.dtype in ("float32", "float64"):
        tolerance = 1e-4
    for block in range(layer):
        difference = actual[block] - expected[block]
        if difference.abs().max() > tolerance:
            return (
                f"block {block} gives other weights than one masked pass over all tokens,"
                " so it counts places by itself"
            )
    return None


def _masked_inputs(
    partial_forward: PartialForward, prompt: BlockPrompt
) -> dict[str, Any]:
    """One pass over all tokens in which passages do not see each other."""
    head_length = len(prompt.head)
    tail_end = prompt.tail_start + len(prompt.tail)
    ids = [*prompt.head, *itertools.chain(*prompt.passages), *prompt.tail]
    positions = [*range(head_length)]
    mask = _causal_mask(partial_forward, 0, len(ids))
    hidden_value = mask.min()
    for passage in prompt.passages:
        start = len(positions)
        positions += range(head_length, head_length + len(passage))
        mask[:, :, start : len(positions), head_length:start] = hidden_value
    positions += range(prompt.tail_start, tail_end)
    return _pass_inputs(partial_forward, ids, positions, mask)
