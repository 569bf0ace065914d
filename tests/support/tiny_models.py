"""A tiny random causal model with a byte tokenizer, and a probe for it; nothing is downloaded."""

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from denoise_core.end import HiddenReader, Probe

CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
LAYER = 2
QUESTION = "Where is the tower?"
TEXTS = [
    "The tower is in Porto.",
    "Bread is cheap.",
    "باريس 🗼",
    "The tower is old. It is red.",
]


def tiny_pair(seed=0):
    """``(model, tokenizer)``: four blocks, one id for each byte."""
    torch.manual_seed(seed)
    size = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "max_position_embeddings": 1024,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(
        vocab_size=300, bos_token_id=0, eos_token_id=1, pad_token_id=2, **size, **heads
    )
    backend = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(_alphabet())}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, chat_template=CHAT, **names
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def build_probe(model, tokenizer):
    """A random probe for the states after `LAYER` blocks."""
    weight = (
        np.random.default_rng(0)
        .standard_normal(model.config.hidden_size)
        .astype(np.float32)
    )
    return Probe(weight, 0.25, HiddenReader(model, tokenizer=tokenizer).reading(LAYER))


def addresses(module):
    """Where a module's weights lie in memory."""
    return {p.data_ptr() for p in module.parameters()}


def _alphabet():
    return ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
