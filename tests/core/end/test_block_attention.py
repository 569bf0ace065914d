"""Passages read alone, and a question's attention to them: exact against one masked pass, family by family."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from denoise_core import InputError
from denoise_core.local.block_attention import (
    BlockAttention,
    BlockPrompt,
)
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.partial_forward import get_partial_forward

LAYER = 5
# Why a family is refused; the others are read.
REFUSED = {
    "gpt_neo": "counts places",
    "falcon-alibi": "cannot be read",
    "bloom": "position ids",
    "mpt": "position ids",
    "qwen3_next": "cannot be read",
    "qwen3_5_text": "cannot be read",
    "lfm2": "cannot be read",
}


def sample_ids(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(3, 300, (count,), generator=generator).tolist())


def sample_prompt(lengths=(8, 5, 9, 6, 7), tail=4):
    passages = tuple(sample_ids(length, length) for length in lengths)
    return BlockPrompt(sample_ids(3, 90), passages, sample_ids(tail, 91))


def make_reading(model, max_bytes=1 << 20):
    partial_forward = get_partial_forward(model)
    partial_forward.check_readable()
    return BlockAttention(partial_forward, PrefixCache(max_bytes), lambda n: n, 64)


def reference_weights(model, prompt):
    """Of an eager model, by transformers' own ``output_attentions`` over all tokens and a mask."""
    model.set_attn_implementation("eager")
    starts = [len(prompt.head)]
    for passage in prompt.passages:
        starts.append(starts[-1] + len(passage))
    ids = [*prompt.head, *sum(prompt.passages, ()), *prompt.tail]
    positions = [*range(starts[0])]
    for passage in prompt.passages:
        positions += range(starts[0], starts[0] + len(passage))
    positions += range(prompt.tail_start, prompt.tail_start + len(prompt.tail))
    mask = torch.full((len(ids), len(ids)), torch.finfo(torch.float32).min).triu(1)
    for start, end in pairwise(starts):
        mask[start:end, starts[0] : start] = torch.finfo(torch.float32).min
    with torch.inference_mode():
        output = model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.tensor([positions]),
            attention_mask=mask[None, None],
            output_attentions=True,
        )
    return [weights[0, :, -len(prompt.tail) :] for weights in output.attentions]


def test_weights_are_those_of_a_masked_pass(decoder, tiny):
    model = tiny(decoder)
    reading = make_reading(model)
    if decoder in REFUSED:
        with pytest.raises(InputError, match=REFUSED[decoder]):
            reading.check(LAYER)
        return
    reading.check(LAYER)
    prompt = sample_prompt()
    weights = reading.attend(prompt, range(LAYER), lambda kept: kept)
    expected = reference_weights(model, prompt)
    for block in range(LAYER):
        keys = weights[block].shape[-1]
        torch.testing.assert_close(
            weights[block], expected[block][..., :keys], atol=1e-5, rtol=0
        )
