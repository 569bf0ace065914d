"""Every notebook of the cookbook runs from top to bottom, is short, and is kept with its outputs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COOKBOOK = Path(__file__).parents[1] / "cookbook"
NOTEBOOKS = sorted(COOKBOOK.glob("*.ipynb"))
KINDS = ("code", "markdown")
CODE_LINES, WORDS = 160, 650

RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
"""


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


@pytest.mark.notebook
def test_it_runs(notebook, tmp_path):
    """In a folder of its own, so that nothing is left behind; the data lies beside it there too."""
    if (COOKBOOK / "data").is_dir():
        shutil.copytree(COOKBOOK / "data", tmp_path / "data")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_it_is_read_in_one_sitting(notebook):
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = {
        kind: "".join(
            "".join(c["source"]) + "\n" for c in cells if c["cell_type"] == kind
        )
        for kind in KINDS
    }
    assert (
        len([line for line in text["code"].splitlines() if line.strip()]) <= CODE_LINES
    )
    assert len(text["markdown"].split()) <= WORDS


def test_each_recipe_is_listed_with_who_answers():
    page = (COOKBOOK.parent / "docs" / "how_to" / "index.md").read_text("utf-8")
    assert sorted(re.findall(r"\(\.\./\.\./cookbook/(\w+)\.ipynb\)", page)) == [
        n.stem for n in NOTEBOOKS
    ]


@pytest.mark.notebook
def test_its_outputs_are_kept_and_hold_no_local_paths(notebook):
    cells = [
        c
        for c in json.loads(notebook.read_text("utf-8"))["cells"]
        if c["cell_type"] == "code"
    ]
    assert [c["execution_count"] for c in cells] == list(range(1, len(cells) + 1)), (
        "run all, top to bottom"
    )
    assert cells[-1]["outputs"], "the last cell shows what was measured"
    shown = json.dumps([c["outputs"] for c in cells])
    local = (
        "/home/",
        "/root/",
        "/tmp/",
        "site-packages",
        "C:\\\\Users",
        str(Path(__file__).parents[1]),
    )
    assert not any(path in shown for path in local)
