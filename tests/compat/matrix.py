"""The adapters' tests against the oldest and the newest frameworks they are declared for; run by ``make compat``.

One environment a row, under ``.venv-compat/``, made anew each time by pip from what the package index resolves. A
row that has run is written into the table of its document (``tests/compat/langchain.md`` or ``llamaindex.md``).
Standard library only.

    python tests/compat/matrix.py [ROW ...]

Ends with 1 when a row did not resolve or a test in it failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-compat"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
TABLE_BEGIN = "<!-- compat: written by make compat -->\n"
TABLE_END = "<!-- compat: end -->"
HEAD = "| row | versions | passed | failed | skipped |\n|---|---|---|---|---|"

FREE = (
    "langchain",
    "langgraph",
    "langsmith",
    "llama-",
    "openai",
    "transformers",
    "tokenizers",
    "hugging",
    "tiktoken",
    "pip==",
)
"""Beginnings of the names whose versions a row with a floor decides by itself."""

UNNEEDED = ("ipykernel", "nbclient", "faiss-cpu", "datasets", "litellm", "ray")
"""Of the test group, what no adapter's test needs."""


def floor(extra, package):
    """The requirement of the oldest version that an extra of ours declares, such as ``langchain==1.3``."""
    for line in PROJECT["project"]["optional-dependencies"][extra]:
        declared = re.fullmatch(rf"{re.escape(package)}>=([\d.]+),.*", line)
        if declared:
            return f"{package}=={declared[1]}"
    raise SystemExit(f"pyproject.toml: expected {package}>=... in the extra {extra!r}")


LANGCHAIN = {
    "document": "tests/compat/langchain.md",
    "shown": (
        "langchain-core",
        "langchain",
        "langchain-classic",
        "langgraph",
        "langchain-openai",
        "openai",
    ),
    "tests": ("tests/langchain",),
    "without": ("llama-index",),
}
LLAMAINDEX = {
    "document": "tests/compat/llamaindex.md",
    "shown": (
        "llama-index-core",
        "llama-index-workflows",
        "llama-index-llms-openai-like",
        "openai",
        "transformers",
    ),
    "tests": ("tests/llamaindex",),
    "without": ("langchain", "langgraph"),
}

# One environment each: what is asked of pip, and which tests run in it. ``without`` are requirements of the test
# group that do not resolve there, or are not needed. ``shown`` are the packages whose versions the table names. A
# row with an exact pin takes all other packages from ``constraints.txt``, apart from `FREE`; one without takes the
# newest of everything.
ROWS = (
    SimpleNamespace(
        name="langchain floor",
        extras=("agents", "end"),
        pins=(floor("agents", "langchain"), floor("langchain", "langchain-core")),
        **LANGCHAIN,
    ),
    SimpleNamespace(
        name="langchain newest", extras=("agents", "end"), pins=(), **LANGCHAIN
    ),
    SimpleNamespace(
        name="langchain-huggingface",
        document="tests/compat/langchain.md",
        extras=("langchain", "end"),
        pins=("langchain-huggingface>=1.2",),
        shown=(
            "langchain-core",
            "langchain-huggingface",
            "transformers",
            "huggingface-hub",
        ),
        tests=("tests/compat/huggingface.py",),
        without=("llama-index", "langchain", "langgraph"),
    ),
    SimpleNamespace(
        name="llama-index-core floor",
        extras=("llamaindex",),
        pins=(floor("llamaindex", "llama-index-core"),),
        **LLAMAINDEX,
    ),
    SimpleNamespace(
        name="llama-index-core newest",
        extras=("llamaindex", "end"),
        pins=(),
        **LLAMAINDEX,
    ),
)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    names = [row.name for row in ROWS]
    parser.add_argument("rows", nargs="*", choices=names)
    asked = parser.parse_args().rows or names
    is_good = True
    for row in ROWS:
        if row.name in asked:
            print(f"== {row.name}", flush=True)
            line = run_row(row)
            print(line, flush=True)
            write_line(row, line)
            is_good &= is_passed(line)
    return 0 if is_good else 1


def test_group(row):
    """Our test requirements without the other framework's and without what only notebooks need."""
    group = PROJECT["dependency-groups"]["test"]
    unwanted = (*UNNEEDED, *row.without)
    return [line for line in group if not line.startswith(unwanted)]


def run_row(row):
    """Make the environment and run the tests in it; return the line of the table."""
    place = ENVIRONMENTS / row.name.replace(" ", "-")
    venv.create(place, with_pip=True, clear=True)
    python = place / "bin" / "python"
    problem = install(row, place, python)
    if problem:
        return table_line(row, "", problem)
    # LlamaIndex brings NLTK's data along, but fetches it anew unless it is told.
    site_packages = next((place / "lib").glob("python*/site-packages"))
    nltk_data = str(site_packages / "llama_index" / "core")
    done = subprocess.run(
        [place / "bin" / "pytest", "-q", *row.tests],
        cwd=ROOT,
        env={**os.environ, "NLTK_DATA": nltk_data},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout)
    return table_line(row, shown_versions(row, python), done.stdout)


def install(row, place, python):
    """Empty, or the first error of what resolves."""
    is_floor = any("==" in pin for pin in row.pins)
    fixed = [line for line in CONSTRAINTS if is_floor and not line.startswith(FREE)]
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(fixed) + "\n", "utf-8")
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--constraint", constraints]
    command += ["--find-links", ROOT / "build" / "weights"]
    steps = [["--upgrade", "pip"]]
    if "end" in row.extras:
        torch = next(line for line in CONSTRAINTS if line.startswith("torch=="))
        steps.append([torch])
    ours = f".[{','.join(row.extras)}]"
    steps.append(["--editable", ours, *row.pins, *test_group(row)])
    for step in steps:
        done = subprocess.run(
            [*command, *step], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            (place / "problem.txt").write_text(done.stdout + done.stderr, "utf-8")
            return f"does not resolve: {place.relative_to(ROOT)}/problem.txt"
    return ""


def shown_versions(row, python):
    command = [python, "-m", "pip", "list", "--format", "freeze"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.lower().replace("_", "-").splitlines()
    versions = dict(line.split("==") for line in lines)
    shown = [f"{name} {versions[name]}" for name in row.shown if name in versions]
    return ", ".join(shown)


def table_line(row, versions, output):
    """A row of the table, in Markdown, from what pytest (or `install`) says last."""
    last_line = (output.strip().splitlines() or [""])[-1]
    counts = Counter()
    for number, outcome in re.findall(
        r"(\d+) (passed|failed|error|skipped)", last_line
    ):
        counts[outcome] += int(number)
    failed = str(counts["failed"] + counts["error"])
    if not counts:
        failed = last_line or "pytest said nothing"
    cells = [row.name, versions, counts["passed"], failed, counts["skipped"]]
    return f"| {' | '.join(map(str, cells))} |"


def is_passed(line):
    passed, failed = line.split(" | ")[2:4]
    return int(passed) > 0 and failed == "0"


def write_line(row, line):
    """Put the line of a row into its document, between the two markers; other lines stay."""
    path = ROOT / row.document
    before, lines, after = table_in(path.read_text("utf-8"), path.name)
    lines[row.name] = line
    order = [known.name for known in ROWS if known.name in lines]
    table = "\n".join([HEAD, *(lines[name] for name in order)])
    path.write_text(f"{before}{table}\n{after}", "utf-8")


def table_in(text, name):
    """What is before the table, its lines by row, and what is after it."""
    parts = re.fullmatch(f"(.*?{TABLE_BEGIN})(.*?)({TABLE_END}.*)", text, re.DOTALL)
    if parts is None:
        raise SystemExit(f"{name}: expected {TABLE_BEGIN!r} and {TABLE_END!r}")
    before, table, after = parts.groups()
    lines = {}
    for line in table.splitlines()[2:]:
        if line.startswith("|"):
            lines[line.split("|")[1].strip()] = line
    return before, lines, after


if __name__ == "__main__":
    sys.exit(main())
