"""Names, statements and prose of core and adapters, measured. Each bound may only become stricter."""

import ast
import re
from pathlib import Path

import pytest
from code_measures import (
    COMPREHENSIONS,
    PACKAGES,
    ROOT,
    collect_names,
    comments_of,
    count_code_lines,
    count_nodes,
    is_bare_participle,
    is_one_letter,
    is_one_word,
    modules_of,
    nodes_per_line,
    shared_names,
    user_facing_texts,
)

FILES = list(modules_of(PACKAGES).values())

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

# Modules that hold prompts, whose texts stay while replies to them are recorded.
PROMPT_MODULES = (
    "augmenter/knowledge/queries.py",
    "s2a/prompts.py",
    "scorers/decisions.py",
    "support/answer_prompt.py",
    "support/quoting.py",
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
    assert not shared_names(names.classes)


def test_few_module_functions_share_a_name(names):
    shared = shared_names(names.module_functions)
    assert sum(shared.values()) <= 0.08 * names.module_functions.total(), shared


def test_no_name_of_the_table_is_defined(names):
    rows = FORBIDDEN_NAMES.read_text(encoding="utf-8").splitlines()
    terms = dict(row.split("\t") for row in rows if not row.startswith("#"))
    assert not {
        name: terms[name.strip("_")]
        for name in names.defined
        if name.strip("_") in terms
    }


def test_statements_are_one_step_each():
    thousand_lines = sum(map(count_code_lines, FILES)) / 1000
    assert nodes_per_line(FILES) <= 4.5
    assert count_nodes(FILES, COMPREHENSIONS) <= 30 * thousand_lines
    assert count_nodes(FILES, ast.IfExp) <= 15 * thousand_lines
    comments = sum(len(comments_of(path)) for path in FILES)
    assert comments >= 15 * thousand_lines


def test_docstrings_comments_and_messages_are_modern_english():
    """All but the prompts: recorded replies are found again by their text."""
    hits = []
    for path in FILES:
        module = path.relative_to(ROOT).as_posix()
        for line, text in user_facing_texts(path):
            words = [match[0] for match in OLD_WORDS.finditer(text)]
            if words and not module.endswith(PROMPT_MODULES):
                hits.append(f"{module}:{line}: {words}")
    assert not hits
