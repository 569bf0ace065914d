"""What the package exports, and what importing it brings along."""

import subprocess
import sys

import pytest

import llamaindex_denoise


def test_every_exported_name_is_there():
    for name in llamaindex_denoise.__all__:
        assert getattr(llamaindex_denoise, name).__module__.startswith(
            "llamaindex_denoise"
        )
    assert set(llamaindex_denoise.__all__) == set(llamaindex_denoise._MODULE_OF_NAME)
    assert set(llamaindex_denoise.__all__) <= set(dir(llamaindex_denoise))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Denoizer'"):
        llamaindex_denoise.Denoizer  # noqa: B018


@pytest.mark.parametrize(
    "name",
    [
        "llamaindex_denoise",
        "llamaindex_denoise.postprocessor",
        "llamaindex_denoise.agents.checked",
    ],
)
def test_importing_brings_neither_torch_nor_the_other_framework(name):
    code = (
        f"import {name}, sys; "
        "print([m for m in ('torch', 'langchain_core', 'transformers') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


def test_the_postprocessor_loads_no_method_before_it_is_used():
    code = (
        "import sys; from llamaindex_denoise import DenoisePostprocessor; print([m for m in sys.modules "
        "if m.split('.')[:2] in [['denoise_core', p] for p in 'augmenter embedded end s2a support'.split()]])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


def test_the_package_itself_loads_no_module_of_its_own():
    code = "import llamaindex_denoise, sys; print([m for m in sys.modules if m.startswith('llama')])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "['llamaindex_denoise']"
