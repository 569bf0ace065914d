"""The site builds strictly, a dead link ends the build, and the reference has an entry for each public name."""

import re

import pytest
from code_measures import ROOT


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


def test_each_picture_is_there(html):
    """Also those from outside ``docs``."""
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
