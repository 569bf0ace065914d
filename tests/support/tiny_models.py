"""A tiny random causal model with a byte tokenizer, and a probe for it; nothing is downloaded."""

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
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
    return LlamaForCausalLM(config).eval(), build_tokenizer(start="", template=CHAT)


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


def build_tokenizer(*, pair=False, pad=True, start="<s> ", template=None):
    """One id for each byte, after three special ones; ``pair`` joins two texts as BERT's do."""
    alphabet = ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = TemplateProcessing(
        single=f"{start}$A </s>" if pair else f"{start}$A",
        pair="<s> $A </s> $B:1 </s>:1" if pair else None,
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=template,
        **(names | {"pad_token": "<pad>"} if pad else names),
    )
    if pair:
        inputs = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer.model_input_names = inputs
    return tokenizer
