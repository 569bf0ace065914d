"""Names, statements and prose of core and adapters, measured. Each bound may only become stricter."""

import re
from pathlib import Path

import pytest
from code_measures import (
    collect_names,
    is_bare_participle,
    is_one_letter,
    is_one_word,
    measure_statements,
    nodes_per_line,
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
    assert nodes_per_line(FILES) <= 4.5
    assert statements.comprehensions <= 30
    assert statements.ternaries <= 15
    assert statements.comments >= 15


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
