"""Names and statements of core and adapters, measured; each bound may only become stricter."""

from pathlib import Path

import pytest
from code_measures import (
    collect_names,
    is_bare_participle,
    is_one_letter,
    is_one_word,
    measure_statements,
    python_files,
    shared_share,
)

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "shared" / "denoise_core",
    ROOT / "langchain_denoise",
    ROOT / "llamaindex_denoise",
]


@pytest.fixture(scope="module")
def names():
    return collect_names(python_files(*PACKAGES))


def test_names_are_long_enough_to_say_something(names):
    assert names.mean_length >= 5.2
    assert names.share(is_one_word) <= 0.81
    assert names.share(is_one_letter) <= 0.125
    assert names.share(is_bare_participle) <= 0.126


def test_a_class_name_means_one_class(names):
    shared = {name: count for name, count in names.classes.items() if count > 1}
    assert sum(shared.values()) <= 108, shared


def test_few_module_functions_share_a_name(names):
    assert shared_share(names.module_functions) <= 0.38


def test_statements_are_one_step_each():
    statements = measure_statements(python_files(*PACKAGES))
    assert statements.comprehensions <= 77
    assert statements.ternaries <= 43
