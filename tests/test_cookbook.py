"""Every notebook of the cookbook runs where only its first cell was followed, shows what it stores, is short."""

import json
import re

import pytest
from code_measures import ROOT

COOKBOOK = ROOT / "cookbook"
NOTEBOOKS = sorted(COOKBOOK.glob("*.ipynb"))
KINDS = ("code", "markdown")
CODE_LINES, WORDS = 160, 650
LABORATORY = "rag-denoise-lab"


@pytest.fixture
def recipes(docs_tool):
    return docs_tool("notebooks")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


@pytest.fixture
def recipe(notebook, recipes):
    return recipes.nbformat.read(notebook, as_version=4)


@pytest.mark.notebook
def test_it_shows_what_it_stores(notebook, recipe, recipes, tmp_path):
    """What its first cell does not install is hidden; milliseconds and pictures are not compared."""
    executed = recipes.execute_recipe(notebook, tmp_path)
    for old, new in zip(recipes.code_cells(recipe), recipes.code_cells(executed)):
        assert recipes.shown_text(new) == recipes.shown_text(old), old.source[:200]


def test_its_first_cell_asks_and_says_what_to_install(recipe, recipes):
    assert re.match(r"# Do(es)? .*\bpay\b.*\?\n", recipe.cells[0].source)
    command = recipes.install_command(recipe)
    code = "\n".join(cell.source for cell in recipes.code_cells(recipe))
    assert ("denoise_lab" in code) == (LABORATORY in command)
    told = [c.source for c in recipe.cells if c.cell_type == "markdown"]
    assert "does not pay" in " ".join(" ".join(told[1:]).split())


def test_it_is_read_in_one_sitting(recipe):
    text = dict.fromkeys(KINDS, "")
    for cell in recipe.cells:
        text[cell.cell_type] += f"{cell.source}\n"
    assert len(re.findall(r"^.*\S", text["code"], re.M)) <= CODE_LINES
    assert len(text["markdown"].split()) <= WORDS


def test_each_recipe_is_listed_with_who_answers():
    page = (ROOT / "docs" / "how_to" / "index.md").read_text("utf-8")
    assert sorted(re.findall(r"\(\.\./\.\./cookbook/(\w+)\.ipynb\)", page)) == [
        n.stem for n in NOTEBOOKS
    ]


@pytest.mark.notebook
def test_its_outputs_are_kept_and_hold_no_local_paths(recipe, recipes):
    cells = recipes.code_cells(recipe)
    numbers = [cell.execution_count for cell in cells]
    assert numbers == list(range(1, len(cells) + 1)), "run all, top to bottom"
    assert cells[-1].outputs, "the last cell shows what was measured"
    shown = json.dumps([cell.outputs for cell in cells])
    local = ("/home/", "/root/", "/tmp/", "site-packages", "C:\\\\Users", str(ROOT))
    assert not any(path in shown for path in local)
