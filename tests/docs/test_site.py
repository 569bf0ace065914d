"""The site builds strictly, a dead link ends the build, and the reference has an entry for each public name."""

import ast
import importlib
import importlib.util
import inspect
import json
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from headless import chromium, told_by

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "docs" / "tools"
PROTOCOLS = (
    "denoise_core.protocols",
    "denoise_core.augmenter.drafting.drafter",
    "denoise_core.augmenter.utility",
)
PROTOCOLS += (
    "denoise_core.augmenter.policy",
    "denoise_core.augmenter.feedback",
    "denoise_lab.s2a.judges",
)
PROTOCOLS += ("denoise_core.augmenter.knowledge.link", "denoise_core.runtime.caches")


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("make_site"), importlib.import_module("reference")
    sys.path.remove(str(TOOLS))
    for name in ("make_site", "reference"):
        del sys.modules[name]


def test_it_builds_strictly_and_every_page_is_written(html, tools):
    pages = {
        p.relative_to(ROOT / "docs").with_suffix(".html")
        for p in (ROOT / "docs").rglob("*.md")
    }
    pages = {p for p in pages if p.parts[0] not in {"listing", "tools", "style.html"}}
    assert len(pages) > 8
    assert not [str(p) for p in pages if not (html / p).exists()]
    for module, names in tools[1].public_modules().items():
        page = (html / "reference" / f"{module}.html").read_text("utf-8")
        for name in names:
            assert (
                f'id="{tools[1].home_of(module, name)}"' in page
                or f">{name}</code>" in page
            ), (module, name)


def test_what_the_repository_needs_is_not_shown(html, tools):
    """A bar in a table's code has its backslash in the file alone; pictures from outside ``docs`` are there."""
    pages = [page.read_text("utf-8") for page in html.rglob("*.html")]
    cells = [cell for page in pages for cell in re.findall(r"<td[^>]*>.*?</td>", page)]
    assert any("prompt | S2AMessages" in cell for cell in cells)
    assert not [cell for cell in cells if "\\|" in cell]
    shown = [
        (p, s)
        for p in html.rglob("*.html")
        for s in re.findall(r'<img[^>]* src="([^"]+)"', p.read_text("utf-8"))
    ]
    assert len(shown) > 3
    assert not [(p, s) for p, s in shown if not (p.parent / s).is_file()]


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (ROOT / "docs" / "pictures").glob("*.svg"))
)
def test_a_drawing_fits_a_telephone(name):
    """390 pixels less the page's own margins; so no drawing is shrunk until its words cannot be read."""
    drawing = (ROOT / "docs" / "pictures" / name).read_text("utf-8")
    assert int(re.search(r'viewBox="0 0 (\d+) ', drawing)[1]) <= 380
    assert "<title>" in drawing


PROBE = """<script>addEventListener("load", () => {
  const wide = e => e.scrollWidth > e.clientWidth + 1;
  const boxes = document.querySelectorAll(".md-typeset :is(pre > code, .md-typeset__scrollwrap)");
  const cut = [document.documentElement, ...boxes];
  parent.postMessage([NAME, cut.filter(wide).map(e => e.textContent.trim().slice(0, 60))], "*");
})</script>"""
FRAMES = """<!doctype html><body><script>
const told = {};
addEventListener("message", m => { told[m.data[0]] = m.data[1];
  if (Object.keys(told).length === COUNT) {
    const e = document.createElement("pre");
    e.id = "told"; e.textContent = JSON.stringify(told); document.body.append(e);
  } });
</script>"""


@pytest.mark.skipif(chromium() is None, reason="needs a Chromium")
def test_on_a_telephone_nothing_is_cut_off(html, tmp_path):
    """390 pixels wide: no page, table or code scrolls sideways."""
    copy = shutil.copytree(html, tmp_path / "html")
    names = [
        str(p.relative_to(html))
        for p in html.rglob("*.html")
        if p.parent.name != "reference"
    ]
    names = [name for name in names if name != "404.html"]
    for name in names:
        text = (copy / name).read_text("utf-8")
        (copy / name).write_text(
            text + PROBE.replace("NAME", json.dumps(name)), "utf-8"
        )
    frames = [
        f'<iframe src="{name}" width="390" height="900"></iframe>' for name in names
    ]
    (copy / "frames.html").write_text(
        FRAMES.replace("COUNT", str(len(names))) + "".join(frames), "utf-8"
    )
    told = told_by(copy / "frames.html", "light", budget=20_000)
    assert len(told) > 20
    assert {name: cut for name, cut in told.items() if cut} == {}


def test_each_public_class_shows_what_it_is_made_from(html):
    page = (html / "reference" / "denoise_core.end.html").read_text("utf-8")
    entry = page[page.index('id="denoise_core.end.denoiser.ENDDenoiser"') :][:20_000]
    assert ">min_keep<" in entry


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("[x](nowhere.md)", "no such file: nowhere.md"),
        ("[x](end.md#no-such-part)", "anchor does not exist"),
    ],
)
def test_a_dead_link_ends_the_build(site, build, link, says):
    page = site / "docs" / "start.md"
    whole = page.read_text("utf-8")
    page.write_text(f"{whole}\n{link}\n", "utf-8")
    try:
        done = build(site)
    finally:
        page.write_text(whole, "utf-8")
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_page_outside_the_menu_ends_the_build(site, build):
    page = site / "docs" / "forgotten.md"
    page.write_text("# Forgotten\n", "utf-8")
    try:
        done = build(site)
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
        inner = (
            value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        )
        inner = inner.fget if isinstance(inner, property) else inner
        if not name.startswith("_") and inspect.isfunction(inner):
            yield name, inner


def followed_by_text(module: str, name: str) -> bool:
    """Whether the assignment of ``name`` has its docstring under it, as the reference reads it."""
    spec = importlib.util.find_spec(module)
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    for node, after in pairwise(body):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [getattr(node, "target", None)]
        )
        if name in {getattr(target, "id", "") for target in targets}:
            return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return False


def test_every_public_value_says_what_it_is(tools):
    silent = []
    for module, names in tools[1].public_modules().items():
        for name in names:
            value = getattr(importlib.import_module(module), name)
            home, _, own = tools[1].home_of(module, name).rpartition(".")
            if not callable(value) and not followed_by_text(home, own):
                silent.append(f"{home}.{own}")
    assert not sorted(set(silent))


def test_every_public_name_says_what_it_is(tools):
    known = promised()
    assert {
        "complete",
        "denoise",
        "retrieve",
        "score",
        "draft",
        "assess",
        "choose",
        "judge",
    } <= known
    silent = set()
    for module, names in tools[1].public_modules().items():
        assert importlib.import_module(module).__doc__, module
        for name in names:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value):
                own = vars(value).get("__doc__") or ""
                if not own or own.startswith(
                    f"{name}("
                ):  # a dataclass without one is given its signature
                    silent.add(f"{module}.{name}")
                silent |= {
                    f"{value.__module__}.{value.__name__}.{n}"
                    for n, f in methods(value)
                    if n not in known
                    and not inspect.getdoc(getattr(value, n))
                    and not f.__doc__
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
                raised = set(
                    re.findall(
                        r"raise (InputError|ProbeMismatch|BudgetExceeded|EmptyResult)",
                        source,
                    )
                )
                if raised and not re.search(
                    "|".join([*raised, "rais", "error", "refuse"]), words
                ):
                    unsaid.append(
                        f"{value.__module__}.{value.__name__}: {sorted(raised)}"
                    )
    assert not unsaid
