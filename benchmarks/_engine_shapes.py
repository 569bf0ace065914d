"""What is served by a real engine: random decoders cut to a probe and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from denoise_core.end import HiddenReader, Layout, Probe, ProbeScorer, ReadingSettings
from denoise_core.local.layout import PASSAGE, QUERY
from denoise_core.protocols import Scorer
from denoise_lab.export import export_probe

DECODERS = ("llama", "qwen3", "gemma3_text")
WINDOW = 1024
LAYER = 4
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2 * LAYER,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": WINDOW,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "sliding_window": 256,  # of shapes that have one; shorter than the texts
}
# The passage first: what an engine keeps of it serves every question.
LAYOUT = Layout("passage first", ("\nQ: ", QUERY), system=("Read: ", PASSAGE))


def export_shape(shape: str, folder: Path) -> Scorer:
    """Write the shape to ``folder``; return its local scorer."""
    tokenizer = byte_tokenizer()
    model = random_model(shape, tokenizer)
    reader = HiddenReader(
        model, tokenizer=tokenizer, settings=ReadingSettings(layout=LAYOUT)
    )
    weight = (
        np.random.default_rng(0).normal(size=SIZES["hidden_size"]).astype(np.float32)
    )
    probe = Probe(weight, 0.7, reader.reading(LAYER))
    export_probe(reader, probe, folder)
    return ProbeScorer(reader, probe)


def random_model(shape: str, tokenizer: Any) -> Any:
    config_class = transformers.CONFIG_MAPPING[shape]
    default_config = config_class()
    sizes = {name: n for name, n in SIZES.items() if hasattr(default_config, name)}
    config = config_class(vocab_size=len(tokenizer), **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        # Gains away from one, so that a norm that is applied twice shows.
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.05)
    return model


def byte_tokenizer() -> Any:
    """Return a tokenizer with one id for each byte."""
    alphabet = ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = TemplateProcessing(
        single="<s> $A", pair="<s> $A $B:1", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
