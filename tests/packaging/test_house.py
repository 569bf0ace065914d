"""The house keeps its shape: arrows point one way, no circle, rooms and files that can be read at one sitting."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASES = {
    "denoise_core": ROOT / "shared",
    "denoise_lab": ROOT / "shared" / "lab",
    "langchain_denoise": ROOT,
    "llamaindex_denoise": ROOT,
}
METHODS = {"end", "s2a", "augmenter"}
ABOVE = {"embedded", "evaluate", "report", "cli", "service"}  # rooms that may know methods

# What a room of the core must not import, beside what follows from `BASES`.
FORBIDDEN = {
    "text": METHODS | ABOVE | {"running", "local", "scorers", "support"},
    "running": METHODS | ABOVE | {"local", "scorers", "support"},
    "local": METHODS | ABOVE | {"scorers", "support"},
    "support": METHODS | {"report", "cli", "service", "evaluate"},
    "scorers": METHODS | {"report", "cli", "service"},
    "end": METHODS - {"end"} | {"embedded", "report", "cli", "service"},
    "s2a": METHODS - {"s2a"} | {"embedded", "evaluate", "report", "cli", "service"},
    "augmenter": METHODS - {"augmenter"} | {"report", "cli", "service"},
    "embedded": {"s2a", "augmenter", "report", "cli", "service"},
    "evaluate": {"report", "cli", "service"},
    "report": {"cli", "service"},
}


def files():
    for package, base in BASES.items():
        for path in sorted((base / package).rglob("*.py")):
            yield ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__"), path


MODULES = dict(files())


def imports_of(path, *, lazy=True, types=True):
    """Modules of ours that a file imports; not ``lazy``: at its top level alone; not ``types``: not for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    nodes = [n for n in (ast.walk(tree) if lazy else tree.body) if types or id(n) not in for_types]
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
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
            other = target.split(".")[0]
            if other not in {own, "denoise_core"}:
                wrong.append(f"{module} imports {target}")
    assert not wrong


def test_no_circle():
    graph = {module: imports_of(path, types=False) & MODULES.keys() - {module} for module, path in MODULES.items()}
    # A package's entry gathers names of its own modules, which never ask it back.
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            graph[module] = {t for t in imports_of(path, lazy=False, types=False) if t in MODULES and t != module}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
