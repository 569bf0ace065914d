"""The site builds strictly, a dead link ends the build, and the reference has an entry for each public name."""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "docs" / "tools"
PROTOCOLS = ("denoise_core.protocols", "denoise_core.augmenter.drafting.drafter", "denoise_core.augmenter.utility")
PROTOCOLS += (
    "denoise_core.augmenter.policy",
    "denoise_core.augmenter.feedback",
    "denoise_core.evaluate.s2a.judges",
)
PROTOCOLS += ("denoise_core.augmenter.knowledge.link", "denoise_core.running.caches.stores")


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("make_site"), importlib.import_module("reference")
    sys.path.remove(str(TOOLS))
    for name in ("make_site", "reference"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of a copy of what it is made from, so that nothing is left behind here."""
    copy = tmp_path_factory.mktemp("site")
    for name in ("docs", "shared/denoise_core", "langchain_denoise", "llamaindex_denoise", "cookbook"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    (copy / "benchmarks" / "results").mkdir(parents=True)
    for path in (ROOT / "benchmarks" / "results").glob("*.*"):
        shutil.copy(path, copy / "benchmarks" / "results")
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def built(copy):
    return subprocess.run(
        [sys.executable, "docs/tools/make_site.py"], cwd=copy, capture_output=True, text=True, check=False
    )


def test_it_builds_strictly_and_every_page_is_written(site, tools):
    done = built(site)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    html = site / "build" / "site" / "html"
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    pages = {p for p in pages if p.parts[0] != "listing"}
    assert len(pages) > 8
    assert not [str(p) for p in pages if not (html / p).exists()]
    for module, names in tools[1].public_modules().items():
        page = (html / "reference" / f"{module}.html").read_text("utf-8")
        for name in names:
            assert f'id="{tools[1].home_of(module, name)}"' in page or f">{name}</code>" in page, (module, name)


@pytest.mark.parametrize(
    ("link", "says"),
    [("[x](nowhere.md)", "no such file: nowhere.md"), ("[x](end.md#no-such-part)", "anchor does not exist")],
)
def test_a_dead_link_ends_the_build(site, link, says):
    page = site / "docs" / "start.md"
    whole = page.read_text("utf-8")
    page.write_text(f"{whole}\n{link}\n", "utf-8")
    try:
        done = built(site)
    finally:
        page.write_text(whole, "utf-8")
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_page_outside_the_menu_ends_the_build(site):
    page = site / "docs" / "forgotten.md"
    page.write_text("# Forgotten\n", "utf-8")
    try:
        done = built(site)
    finally:
        page.unlink()
    assert done.returncode != 0
    assert "forgotten.md" in done.stderr


def promised() -> set[str]:
    """Names of methods that a protocol of ours describes: who carries one out need not describe it again."""
    found = set()
    for module in PROTOCOLS:
        for value in vars(importlib.import_module(module)).values():
            if getattr(value, "_is_protocol", False):
                found |= {n for n, f in methods(value) if f.__doc__}
    return found


def methods(cls):
    for name, value in vars(cls).items():
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        inner = inner.fget if isinstance(inner, property) else inner
        if not name.startswith("_") and inspect.isfunction(inner):
            yield name, inner


def test_every_public_name_says_what_it_is(tools):
    known = promised()
    assert {"complete", "denoise", "retrieve", "score", "draft", "assess", "choose", "judge"} <= known
    silent = set()
    for module, names in tools[1].public_modules().items():
        assert importlib.import_module(module).__doc__, module
        for name in names:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value):
                own = vars(value).get("__doc__") or ""
                if not own or own.startswith(f"{name}("):  # a dataclass without one is given its signature
                    silent.add(f"{module}.{name}")
                silent |= {
                    f"{value.__module__}.{value.__name__}.{n}"
                    for n, f in methods(value)
                    if n not in known and not inspect.getdoc(getattr(value, n)) and not f.__doc__
                }
            elif callable(value) and not inspect.getdoc(value):
                silent.add(f"{module}.{name}")
    assert not silent


def test_what_raises_a_mistake_says_so(tools):
    """A public function whose own lines raise one of our errors speaks of it in its docstring."""
    unsaid = []
    for module, names in tools[1].public_modules().items():
        for value in (getattr(importlib.import_module(module), name) for name in names):
            if inspect.isfunction(value):
                source, words = inspect.getsource(value), inspect.getdoc(value) or ""
                raised = set(re.findall(r"raise (InputError|ProbeMismatch|BudgetExceeded|EmptyResult)", source))
                if raised and not re.search("|".join([*raised, "rais", "error", "refuse"]), words):
                    unsaid.append(f"{value.__module__}.{value.__name__}: {sorted(raised)}")
    assert not unsaid
