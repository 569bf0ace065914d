"""What is served by a real engine: random decoders cut to a probe and exported, and a random reranking encoder."""

from __future__ import annotations

from collections.abc import Sequence
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
from denoise_core.scorers import CrossEncoderScorer
from denoise_lab.export import export_probe

DECODERS = ("llama", "qwen3", "gemma3_text")
ENCODER = "bert"
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
    """Write the shape to ``folder``; return its local scorer: of logits, for the encoder of their sigmoid."""
    if shape == ENCODER:
        return export_encoder(folder)
    tokenizer = byte_tokenizer(takes_pairs=False)
    model = random_model("AutoModelForCausalLM", shape, tokenizer)
    reader = HiddenReader(
        model, tokenizer=tokenizer, settings=ReadingSettings(layout=LAYOUT)
    )
    weight = (
        np.random.default_rng(0).normal(size=SIZES["hidden_size"]).astype(np.float32)
    )
    probe = Probe(weight, 0.7, reader.reading(LAYER))
    export_probe(reader, probe, folder)
    return ProbeScorer(reader, probe)


def export_encoder(folder: Path) -> Scorer:
    tokenizer = byte_tokenizer(takes_pairs=True)
    model = random_model(
        "AutoModelForSequenceClassification",
        ENCODER,
        tokenizer,
        noise=0.15,
        num_labels=1,
    )
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))

    def score(pairs: Sequence[tuple[str, str]]) -> Any:
        """Score one by one, as engines do: a batch gives an empty text a token that it does not have alone."""
        with torch.inference_mode():
            logits = [
                model(**tokenizer(query, text, return_tensors="pt")).logits
                for query, text in pairs
            ]
            return torch.sigmoid(torch.cat(logits))

    return CrossEncoderScorer(score)


def random_model(
    auto_class: str, shape: str, tokenizer: Any, noise: float = 0.05, **more: Any
) -> Any:
    config_class = transformers.CONFIG_MAPPING[shape]
    default_config = config_class()
    settings = dict(more)
    for name, size in SIZES.items():
        if hasattr(default_config, name):
            settings[name] = size
    config = config_class(vocab_size=len(tokenizer), **settings)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, auto_class).from_config(config).eval()
        # Gains away from one, so that a norm that is applied twice shows.
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * noise)
    return model


def byte_tokenizer(*, takes_pairs: bool) -> Any:
    """Return a tokenizer with one id for each byte."""
    alphabet = ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special: list[tuple[str, int]] = [("<s>", 0), ("</s>", 1)]
    pair_template = "<s> $A </s> $B:1 </s>:1" if takes_pairs else "<s> $A $B:1"
    backend.post_processor = TemplateProcessing(
        single="<s> $A", pair=pair_template, special_tokens=special
    )
    input_names = ["input_ids", "attention_mask"]
    if takes_pairs:
        input_names.insert(1, "token_type_ids")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=input_names,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
