"""Tiny random models of every family, and a byte tokenizer: nothing is downloaded."""

import functools
import logging

import pytest
import torch
import transformers
from tiny_models import build_tokenizer

SIZES = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "sliding_window": 16,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2}

# Families whose model_type and the common sizes say everything.
PLAIN_DECODERS = """
    llama qwen2 qwen3 mistral gemma gemma2 phi3 gpt2 gpt_neox olmo2 olmo3 cohere cohere2 granite
    starcoder2 stablelm nemotron glm4 smollm3 ernie4_5 ministral3 gemma3_text
"""
PLAIN_ENCODERS = "bert roberta xlm-roberta mpnet deberta-v2 distilbert"
GEMMA_4 = {
    "head_dim": 8,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
    "global_head_dim": 8,
}

# What a family needs besides the common sizes; the name is the model_type, or "type-variant".
DECODERS = {
    **{name: {} for name in PLAIN_DECODERS.split()},
    "qwen2-sliding": {"use_sliding_window": True, "max_window_layers": 2},
    "phi": {"partial_rotary_factor": 0.5},
    "persimmon": {"partial_rotary_factor": 0.5},
    "gptj": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 3]], "window_size": 16},
    "falcon": {"head_dim": None},
    "falcon-alibi": {"head_dim": None, "alibi": True},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "opt-350m": {
        "ffn_dim": 48,
        "word_embed_proj_dim": 16,
        "do_layer_norm_before": False,
    },
    "bloom": {"n_head": 4, "n_layer": 6},
    "mpt": {
        "n_heads": 4,
        "d_model": 32,
        "n_layers": 6,
        "expansion_ratio": 2,
        "max_seq_len": 512,
    },
    "exaone4": {"sliding_window_pattern": 2},
    "mixtral": {"num_local_experts": 2},
    "qwen3_moe": EXPERTS,
    "qwen3_next": EXPERTS | LINEAR | {"shared_expert_intermediate_size": 16},
    "qwen3_5_text": LINEAR,
    "lfm2": {"block_multiple_of": 8, "full_attn_idxs": [1, 3, 5]},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "llama4_text": {
        "num_local_experts": 2,
        "intermediate_size_mlp": 48,
        "attention_chunk_size": 16,
    },
    "gemma4_text": GEMMA_4 | {"vocab_size_per_layer_input": 320},
    # without what its small sizes add to every block
    "gemma4_text-plain": GEMMA_4 | {"hidden_size_per_layer_input": 0},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
    },
}
ENCODERS = {
    **{name: {} for name in PLAIN_ENCODERS.split()},
    "electra": {"embedding_size": 32},
    "modernbert": {"local_attention": 16, "cls_token_id": 0, "sep_token_id": 1},
}
STATE_SPACE = {
    "mamba2": {
        "num_heads": 8,
        "state_size": 8,
        "expand": 2,
        "n_groups": 2,
        "chunk_size": 8,
    },
}
UNREADABLE = {
    "gemma3n_text": {
        "vocab_size_per_layer_input": 320,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 8,
        "num_kv_shared_layers": 0,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "activation_sparsity_pattern": [0.0] * 6,
    },
    "albert": {"embedding_size": 32},
}
ALL = DECODERS | ENCODERS | STATE_SPACE | UNREADABLE


def pytest_generate_tests(metafunc):
    families = {"decoder": DECODERS, "encoder": ENCODERS, "state_space": STATE_SPACE}
    for name in families.keys() & metafunc.fixturenames:
        metafunc.parametrize(name, list(families[name]))


def build(family, auto="AutoModel", seed=0, **changes):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    model_type = family.partition("-")[0] if family in DECODERS else family
    config_class = transformers.CONFIG_MAPPING[model_type]
    known = config_class()
    special = ALL[family] | changes
    sizes = {k: v for k, v in SIZES.items() if k not in special and hasattr(known, k)}
    sizes |= {k: v for k, v in special.items() if v is not None}
    config = config_class(**sizes)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        model = getattr(transformers, auto).from_config(config).eval()
        # Gains away from one, or a norm applied twice would not show.
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    return model


@pytest.fixture(scope="session")
def tiny():
    """``tiny("llama", "AutoModelForCausalLM", hidden_size=64)``: a random model of that family in eval mode."""
    return build


build_once = functools.cache(build)


@pytest.fixture
def decoder_model(decoder):
    """A random model of a family, one for all tests: none changes it."""
    return build_once(decoder)


@pytest.fixture(scope="session")
def byte_tokenizer():
    """``byte_tokenizer(pair=False, pad=True, template=None)``: one id for each byte, and a few special ones."""
    return build_tokenizer


@pytest.fixture(scope="module")
def llama(tiny):
    return tiny("llama")


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    return byte_tokenizer()


@pytest.fixture(scope="session")
def chat_template():
    return (
        "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
    )
