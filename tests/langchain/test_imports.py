"""What importing costs, and what is public."""

import subprocess
import sys

import pytest

import langchain_denoise


def loaded_by(statement):
    """Top-level packages that a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}; import sys; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


HEAVY = {
    "torch",
    "transformers",
    "sklearn",
    "langchain",
    "langchain_classic",
    "langgraph",
    "llama_index",
}


def test_the_package_alone_loads_no_framework():
    assert not loaded_by("import langchain_denoise") & (
        HEAVY | {"langchain_core", "pydantic"}
    )


def test_the_parts_load_langchain_core_and_nothing_heavier():
    loaded_value = loaded_by("from langchain_denoise import *")
    assert "langchain_core" in loaded_value
    # Older versions of it load transformers where that is installed.
    assert not loaded_value & HEAVY - loaded_by(
        "import langchain_core.language_models.chat_models"
    )


def test_the_compressor_loads_no_method_before_it_is_used():
    code = (
        "import sys; from langchain_denoise import DenoiseCompressor; print([m for m in sys.modules "
        "if m.split('.')[:2] in [['denoise_core', p] for p in 'augmenter embedded end s2a support'.split()] "
        "or m == 'denoise_core.text.structural'])"
    )
    run_output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run_output.stdout.strip() == "[]"


def test_every_public_name_is_there_and_listed():
    for name in langchain_denoise.__all__:
        assert getattr(langchain_denoise, name).__name__ == name
    assert set(langchain_denoise.__all__) <= set(dir(langchain_denoise))
    with pytest.raises(AttributeError, match="Compresor"):
        _ = langchain_denoise.Compresor


def test_a_missing_langchain_core_is_said_with_the_command():
    code = "import sys; sys.modules['langchain_core'] = None; from langchain_denoise import DenoiseCompressor"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "pip install 'rag-denoise[langchain]'" in done.stderr


def test_dir_lists_the_public_names_and_no_modules():
    import langchain_denoise

    assert dir(langchain_denoise) == sorted(langchain_denoise.__all__)
