"""The structure of the code: imports point one way, there is no circle, packages stay below their size."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from code_measures import (
    PACKAGES,
    ROOT,
    count_nodes,
    modules_of,
    nodes_per_line,
    parse_file,
    python_files,
)

BASES = PACKAGES | {"denoise_lab": ROOT / "shared" / "lab"}
MODULES = modules_of(BASES)
METHODS = {"end", "s2a", "augmenter"}
SURFACES = {"report", "cli", "service"}
ABOVE = SURFACES | {"embedded", "evaluate"}  # rooms that may know methods

# What a room of the core must not import, beside what follows from `BASES`.
FORBIDDEN = {
    "text": METHODS | ABOVE | {"runtime", "local", "scorers", "support"},
    "runtime": METHODS | ABOVE | {"local", "scorers", "support"},
    "local": METHODS | ABOVE | {"scorers", "support"},
    "support": METHODS | SURFACES | {"evaluate"},
    "scorers": METHODS | SURFACES,
    "end": METHODS - {"end"} | ABOVE,
    "s2a": METHODS - {"s2a"} | SURFACES | {"evaluate"},
    "augmenter": METHODS - {"augmenter"} | SURFACES,
    "embedded": METHODS - {"end"} | SURFACES | {"evaluate"},
    "evaluate": SURFACES,
    "report": SURFACES - {"report"},
}


@cache
def imports_of(path, *, lazy=True):
    """Modules of ours that a file imports; not ``lazy``: at its top level alone, and not for types."""
    tree = parse_file(path)
    found = set()
    for node in ast.walk(tree) if lazy else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module)
    return {name for name in found if name.split(".")[0] in BASES}


def room(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "denoise_core" and len(parts) > 1 else None


def test_every_room_imports_only_what_lies_below_it():
    wrong = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        for target in imports_of(path)
        if room(target) in FORBIDDEN.get(room(module), ())
    ]
    assert not wrong


def test_adapters_import_the_core_alone_and_nothing_imports_them_or_the_laboratory():
    wrong = []
    for module, path in MODULES.items():
        own = module.split(".")[0]
        for target in imports_of(path):
            if target.split(".")[0] not in {own, "denoise_core"}:
                wrong.append(f"{module} imports {target}")
    assert not wrong


def test_no_circle():
    """Imports for types count: what only a checker follows is still what a reader has to know first."""
    graph = {}
    for module, path in MODULES.items():
        # A package's entry gathers names of its own modules, which never ask it back.
        is_entry = path.name == "__init__.py"
        graph[module] = imports_of(path, lazy=not is_entry) & MODULES.keys() - {module}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


# Syntax nodes (expressions and statements): what a package may have, and its goal. A
# ceiling above its goal is a debt; it rises for the mending of faults alone.
CEILINGS = {
    "shared/denoise_core": (132_600, 105_000),
    "langchain_denoise": (12_500, 12_500),
    "llamaindex_denoise": (10_500, 10_500),
    "shared/lab": (21_200, 22_000),
    "benchmarks": (24_000, 24_000),
    "tests": (137_700, 135_000),
}
NODES_PER_LINE = {  # of code; denser code is not smaller
    "shared/denoise_core": 4.6,
    "langchain_denoise": 4.5,
    "llamaindex_denoise": 4.5,
    "shared/lab": 4.5,
    "benchmarks": 5.1,
    "tests": 4.69,
}


@pytest.mark.parametrize("package", CEILINGS)
def test_a_package_stays_below_its_ceiling(package):
    ceiling, goal = CEILINGS[package]
    assert count_nodes(python_files(ROOT / package)) <= max(ceiling, goal)


@pytest.mark.parametrize("package", NODES_PER_LINE)
def test_code_does_not_become_denser(package):
    files = python_files(ROOT / package)
    assert nodes_per_line(files) <= NODES_PER_LINE[package]


# Places where the core and the adapters compile a pattern or list words by hand: they may only fall. Whoever adds
# one names beside it the data by another hand on which it gains, and takes one away elsewhere.
PATTERNS, WORD_LISTS = 60, 21


def test_patterns_and_word_lists_become_fewer():
    called = []
    for module, path in MODULES.items():
        if module.startswith("denoise_lab"):
            continue
        for node in ast.walk(parse_file(path)):
            if isinstance(node, ast.Call):
                called.append(ast.unparse(node.func))
    word_lists = [name for name in called if name.endswith("word_set")]
    assert called.count("re.compile") <= PATTERNS
    assert len(word_lists) <= WORD_LISTS
