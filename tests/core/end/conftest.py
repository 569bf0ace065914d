"""Tiny random models of every family, and a byte tokenizer: nothing is downloaded."""

import functools
import logging
from pathlib import Path

import pytest
import torch
import transformers
import yaml
from tiny_models import build_tokenizer

FAMILIES_FILE = Path(__file__).parents[2] / "data" / "tiny_families.yaml"
FAMILIES = yaml.safe_load(FAMILIES_FILE.read_text("utf-8"))


def pytest_generate_tests(metafunc):
    if "decoder" in metafunc.fixturenames:
        metafunc.parametrize("decoder", FAMILIES["decoders"])


def build(family, auto="AutoModel", seed=0, **changes):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    config_class = transformers.CONFIG_MAPPING[family.partition("-")[0]]
    known = config_class()
    special = (FAMILIES["decoders"] | FAMILIES["others"])[family] | changes
    sizes = {}
    for name, size in FAMILIES["common"].items():
        if name not in special and hasattr(known, name):
            sizes[name] = size
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
    """``byte_tokenizer(pad=True, template=None)``: one id for each byte, and a few special ones."""
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
