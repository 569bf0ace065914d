"""``python docs/tools/notebooks.py [NAME ...]``: runs recipes of ``cookbook`` and stores what they show.

Each runs in a kernel of its own, over a copy of the data. Only what its first cell installs can be imported there.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from results import hiding_code

COOKBOOK = Path(__file__).parents[2] / "cookbook"
KERNEL = "ipykernel matplotlib-inline"  # what every notebook has
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def install_command(notebook: nbformat.NotebookNode) -> str:
    """The one ``pip install`` command that the first cell names."""
    (command,) = re.findall(r"`(pip install [^`]+)`", notebook.cells[0].source)
    return command


def execute_recipe(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook at ``path`` after a run in ``folder``; raises `RuntimeError` with what a failure said last."""
    notebook = nbformat.read(path, as_version=4)
    hiding = hiding_code(f"    {install_command(notebook)} {KERNEL}")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(hiding))
    shutil.copytree(COOKBOOK / "data", folder / "data")
    copy = folder / path.name
    nbformat.write(notebook, copy)
    command = [sys.executable, "-c", EXECUTE, str(copy)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path.name}: {done.stderr[-3000:]}")
    executed = nbformat.read(copy, as_version=4)
    del executed.cells[0]
    for number, cell in enumerate(code_cells(executed), 1):
        cell.execution_count = number
        cell.outputs = join_streams(cell.outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    return executed


def join_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs with neighbouring pieces of one stream as one: a kernel cuts them differently each time."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        is_stream = output.output_type == "stream"
        if is_stream and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown_text(cell: nbformat.NotebookNode) -> str:
    """What a cell printed or returned, without pictures; milliseconds differ from run to run and are left out."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        else:
            texts.append(output.get("data", {}).get("text/plain", ""))
    return re.sub(r" *[\d.,]+ ms\b", " ms", "".join(texts))


def store_outputs(path: Path) -> None:
    """Run the notebook at ``path`` and write its outputs into it; sources and ids stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        executed = execute_recipe(path, Path(folder))
    if any("KeyError" in shown_text(cell) for cell in code_cells(executed)):
        print(f"{path.name}: a recorded reply is missing", file=sys.stderr)
    notebook = nbformat.read(path, as_version=4)
    for cell, run in zip(code_cells(notebook), code_cells(executed), strict=True):
        cell.outputs, cell.execution_count = run.outputs, run.execution_count
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    names = sys.argv[1:] or [path.stem for path in sorted(COOKBOOK.glob("*.ipynb"))]
    for name in names:
        store_outputs(COOKBOOK / f"{name}.ipynb")
