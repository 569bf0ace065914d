"""Passages read alone, and a question's attention to them: exact against one masked pass, family by family."""

from itertools import chain, pairwise

import pytest
import torch
from tiny_models import sample_ids

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


def sample_prompt():
    passages = tuple(sample_ids(length, length) for length in (8, 5, 9, 6, 7))
    return BlockPrompt(sample_ids(3, 90), passages, sample_ids(4, 91))


def open_attention(model):
    partial_forward = get_partial_forward(model)
    partial_forward.check_readable()
    return BlockAttention(partial_forward, PrefixCache(1 << 20), lambda n: n, 64)


def reference_weights(model, prompt):
    """Of an eager model, by transformers' own ``output_attentions`` over all tokens and a mask."""
    starts = [len(prompt.head)]
    positions = [*range(starts[0])]
    for passage in prompt.passages:
        starts.append(starts[-1] + len(passage))
        positions += range(starts[0], starts[0] + len(passage))
    positions += range(prompt.tail_start, prompt.tail_start + len(prompt.tail))
    ids = [*prompt.head, *chain(*prompt.passages), *prompt.tail]
    lowest = torch.finfo(torch.float32).min
    mask = torch.full((len(ids), len(ids)), lowest).triu(1)
    for start, end in pairwise(starts):
        mask[start:end, starts[0] : start] = lowest
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        output = model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.tensor([positions]),
            attention_mask=mask[None, None],
            output_attentions=True,
        )
    model.set_attn_implementation(implementation)
    return [weights[0, :, -len(prompt.tail) :] for weights in output.attentions]


def test_weights_are_those_of_a_masked_pass(decoder, decoder_model):
    attention = open_attention(decoder_model)
    if decoder in REFUSED:
        with pytest.raises(InputError, match=REFUSED[decoder]):
            attention.check(LAYER)
        return
    attention.check(LAYER)
    prompt = sample_prompt()
    by_block = attention.attend(prompt, range(LAYER), lambda kept: kept)
    expected = reference_weights(decoder_model, prompt)
    for block in range(LAYER):
        weights = by_block[block]
        wanted = expected[block][..., : weights.shape[-1]]
        torch.testing.assert_close(weights, wanted, atol=1e-5, rtol=0)
