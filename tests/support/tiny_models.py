"""A tiny random causal model with a byte tokenizer, and a probe for it; nothing is downloaded."""

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from denoise_core.end import HiddenReader, Probe

CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
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


def sample_ids(count, seed):
    """Token ids without the special ones."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(3, 300, (count,), generator=generator).tolist())


def build_random_probe(reader, layer=3):
    """A probe of random weights for the states after ``layer`` blocks."""
    width = reader.backbone.partial_forward.hidden_size
    weight = np.random.default_rng(0).normal(size=width)
    return Probe(weight.astype(np.float32), 0.7, reader.reading(layer))


def save_tiny_pair(folder, seed=0):
    pair = tiny_pair(seed)
    for part in pair:
        part.save_pretrained(folder)
    return pair


def build_probe(model, tokenizer):
    return build_random_probe(HiddenReader(model, tokenizer=tokenizer), layer=2)


def addresses(module):
    """Where a module's weights lie in memory."""
    return {p.data_ptr() for p in module.parameters()}


def build_word_tokenizer(words, **settings):
    """One id for each word; every other word is "<unk>"."""
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", **settings
    )


def build_tokenizer(*, pad=True, start="<s> ", template=None):
    """One id for each byte, after three special ones."""
    alphabet = ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = TemplateProcessing(
        single=f"{start}$A",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=template,
        **(names | {"pad_token": "<pad>"} if pad else names),
    )
