"""The site builds strictly, a dead link ends the build, and the reference has an entry for each public name."""

import ast
import importlib
import importlib.util
import inspect
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reference(docs_tool):
    return docs_tool("reference")


def test_it_builds_strictly_and_every_page_is_written(html, reference):
    docs = ROOT / "docs"
    pages = {p.relative_to(docs).with_suffix(".html") for p in docs.rglob("*.md")}
    pages = {p for p in pages if p.parts[0] not in {"listing", "tools", "style.html"}}
    assert len(pages) > 8
    assert not [str(p) for p in pages if not (html / p).exists()]
    for module, names in reference.public_modules().items():
        page = (html / "reference" / f"{module}.html").read_text("utf-8")
        for name in names:
            assert (
                f'id="{reference.home_of(module, name)}"' in page
                or f">{name}</code>" in page
            ), (module, name)


def test_what_the_repository_needs_is_not_shown(html):
    """A bar in a table's code has its backslash in the file alone; pictures from outside ``docs`` are there."""
    pages = [page.read_text("utf-8") for page in html.rglob("*.html")]
    cells = [cell for page in pages for cell in re.findall(r"<td[^>]*>.*?</td>", page)]
    assert any("prompt | S2AMessages" in cell for cell in cells)
    assert not [cell for cell in cells if "\\|" in cell]
    shown = []
    for page in html.rglob("*.html"):
        for source in re.findall(r'<img[^>]* src="([^"]+)"', page.read_text("utf-8")):
            shown.append(page.parent / source)
    assert len(shown) > 3
    assert not [path for path in shown if not path.is_file()]


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (ROOT / "docs" / "pictures").glob("*.svg"))
)
def test_a_drawing_fits_a_telephone(name):
    """390 pixels less the page's own margins; so no drawing is shrunk until its words cannot be read."""
    drawing = (ROOT / "docs" / "pictures" / name).read_text("utf-8")
    assert int(re.search(r'viewBox="0 0 (\d+) ', drawing)[1]) <= 380
    assert "<title>" in drawing


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
    done = build(site)
    page.write_text(whole, "utf-8")
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_page_outside_the_menu_ends_the_build(site, build):
    page = site / "docs" / "forgotten.md"
    page.write_text("# Forgotten\n", "utf-8")
    done = build(site)
    page.unlink()
    assert done.returncode != 0
    assert "forgotten.md" in done.stderr


def described_names(module: str) -> set[str]:
    """Names that are assigned at the top of a module with a docstring under them, as the reference reads it."""
    spec = importlib.util.find_spec(module)
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    names = set()
    for node, after in pairwise(body):
        match after:
            case ast.Expr(value=ast.Constant()):
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                names |= {getattr(target, "id", "") for target in targets}
    return names


def public_values(reference):
    """Module, name and value of each public name."""
    for module, names in reference.public_modules().items():
        for name in names:
            yield module, name, getattr(importlib.import_module(module), name)


def test_every_public_value_says_what_it_is(reference):
    silent = set()
    for module, name, value in public_values(reference):
        home, _, own = reference.home_of(module, name).rpartition(".")
        if not callable(value) and own not in described_names(home):
            silent.add(f"{home}.{own}")
    assert not silent


OURS = ("InputError", "ProbeMismatch", "BudgetExceeded", "EmptyResult")


def test_what_raises_a_mistake_says_so(reference):
    """A public function whose own lines raise one of our errors speaks of it in its docstring."""
    unsaid = []
    for module, name, value in public_values(reference):
        if inspect.isfunction(value):
            errors = re.findall(rf"raise ({'|'.join(OURS)})", inspect.getsource(value))
            told = "|".join([*errors, "rais", "error", "refuse"])
            if errors and not re.search(told, inspect.getdoc(value) or ""):
                unsaid.append(f"{module}.{name}: {errors}")
    assert not unsaid
