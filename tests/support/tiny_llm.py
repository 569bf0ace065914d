"""A tiny random model as a `LocalLLM`: bytes in, bytes out, no end of its own, so that limits show."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from denoise_core.end import LocalLLM

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def tiny_llm(**settings):
    """Writes small letters and spaces; a window of 512."""
    alphabet = ["<s>", "</s>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=TEMPLATE,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
    size = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(alphabet),
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=2,
            **size,
        )
        config.eos_token_id = 1
        model = LlamaForCausalLM(config).eval()
    letters = {
        tokenizer(c, add_special_tokens=False)["input_ids"][0]
        for c in "abcdefghijklmnopqrstuvwxyz  "
    }
    model.generation_config.suppress_tokens = [
        i for i in range(len(alphabet)) if i not in letters
    ]
    return LocalLLM(model, tokenizer, **{"max_new_tokens": 24, **settings})
