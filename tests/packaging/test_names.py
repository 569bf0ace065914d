"""Names, statements and prose of core and adapters, measured. Each bound may only become stricter."""

import ast
import re
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
    user_facing_texts,
)

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "shared" / "denoise_core",
    ROOT / "langchain_denoise",
    ROOT / "llamaindex_denoise",
]
FILES = python_files(*PACKAGES)

# Old name, tab, the field's term: names that said nothing to a reader from outside.
FORBIDDEN_NAMES = Path(__file__).with_name("forbidden_names.tsv")

# Words of the old dialect; docs/style.md has what to write instead.
OLD_WORDS = re.compile(
    r"\b(?:mend(?:s|ed|ing)?|beside|stands?|stood|lies? (?:in|at|on|there|where|halfway|behind)|lay (?:in|at|on)"
    r"|in (?:the|its|their) place of|who(?:so)?ever|by another hand|held against|aimed at|in the mean"
    r"|what (?:becomes|comes) of|nowhere|save (?:what|where|those)|speaks? for nothing|told|said of|gone"
    r"|of its own|as it were|is to be had|comes? back|b(?:ears?|ore|orne) (?:\w+ ){0,3}out)\b",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def names():
    return collect_names(FILES)


def test_names_are_long_enough_to_say_something(names):
    assert names.mean_length >= 8
    assert names.share(is_one_word) <= 0.55
    assert names.share(is_one_letter) <= 0.06
    assert names.share(is_bare_participle) <= 0.02


def test_a_class_name_means_one_class(names):
    assert not {name: count for name, count in names.classes.items() if count > 1}


def test_few_module_functions_share_a_name(names):
    shared = {
        name: count for name, count in names.module_functions.items() if count > 1
    }
    assert shared_share(names.module_functions) <= 0.08, shared


def test_no_name_of_the_table_is_defined(names):
    rows = FORBIDDEN_NAMES.read_text(encoding="utf-8").splitlines()
    terms = dict(row.split("\t") for row in rows if not row.startswith("#"))
    assert not {
        name: terms[name.strip("_")]
        for name in names.defined
        if name.strip("_") in terms
    }


def test_statements_are_one_step_each():
    statements = measure_statements(FILES)
    assert statements.nodes_per_line <= 4.5
    assert statements.comprehensions <= 30
    assert statements.ternaries <= 15
    assert statements.comments >= 15


def test_docstrings_comments_and_messages_are_modern_english():
    hits = []
    for path in FILES:
        for line, text in user_facing_texts(path):
            hits += [
                f"{path.relative_to(ROOT)}:{line}: {match[0]}"
                for match in OLD_WORDS.finditer(text)
            ]
    assert not hits


def test_what_is_public_is_documented():
    missing = []
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            is_definition = isinstance(
                node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            )
            if isinstance(node, ast.Module) and not ast.get_docstring(node):
                missing.append(f"{path.relative_to(ROOT)}: module")
            elif (
                is_definition
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                missing.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert len(missing) <= 0, missing
