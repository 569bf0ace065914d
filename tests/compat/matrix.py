"""The adapters' tests against the oldest and the newest frameworks they are declared for; run by ``make compat``.

One environment a row, under ``.venv-compat/``, made anew each time from what the package index resolves: by ``uv``
where it is installed (minutes become seconds), else by pip. A row that has run is written into the table of its
document (``tests/compat/langchain.md``, ``tests/compat/llamaindex.md``). Standard library only.

    python tests/compat/matrix.py [ROW ...] [--keep]

Ends with 1 when a row did not resolve or a test in it failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-compat"
UV = shutil.which("uv")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

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
)
"""Beginnings of the names whose versions a row with a floor decides by itself."""

UNNEEDED = ("ipykernel", "nbclient", "faiss-cpu", "datasets", "litellm", "ray")
"""Of the test group, what no adapter's test needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One environment: what is asked of pip, and which tests run in it.

    ``without`` are requirements of the test group that do not resolve there, or are not needed. ``shown`` are the
    packages whose versions the table names. A row with an exact pin takes all other packages from
    ``constraints.txt``, apart from `FREE`; one without takes the newest of everything.
    """

    name: str
    document: str
    extras: tuple[str, ...]
    pins: tuple[str, ...]
    shown: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a row; ``problem`` when there is nothing to count."""

    row: Row
    versions: Mapping[str, str] = field(default_factory=dict)
    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: int = 0
    problem: str = ""

    @property
    def good(self) -> bool:
        return not self.problem and not self.failed and self.passed > 0


def floor(extra: str, package: str) -> str:
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
}

ROWS = (
    Row(
        "langchain floor",
        extras=("agents", "end"),
        pins=(floor("agents", "langchain"), floor("langchain", "langchain-core")),
        tests=("tests/langchain",),
        **LANGCHAIN,
    ),
    Row(
        "langchain newest",
        extras=("agents", "end"),
        pins=(),
        tests=("tests/langchain",),
        **LANGCHAIN,
    ),
    Row(
        "langchain-huggingface",
        extras=("langchain", "end"),
        pins=("langchain-huggingface>=1.2",),
        tests=("tests/compat/huggingface.py",),
        without=("langchain", "langgraph"),
        document="tests/compat/langchain.md",
        shown=(
            "langchain-core",
            "langchain-huggingface",
            "transformers",
            "huggingface-hub",
        ),
    ),
    Row(
        "llama-index-core floor",
        extras=("llamaindex",),
        pins=(floor("llamaindex", "llama-index-core"),),
        tests=("tests/llamaindex",),
        **LLAMAINDEX,
    ),
    Row(
        "llama-index-core newest",
        extras=("llamaindex", "end"),
        pins=(),
        tests=("tests/llamaindex",),
        **LLAMAINDEX,
    ),
)


def test_group(row: Row) -> list[str]:
    """Our test requirements without the other framework's and without what only notebooks need."""
    other = (
        ("llama-index",)
        if row.document == LANGCHAIN["document"]
        else ("langchain", "langgraph")
    )
    unwanted = (*other, *UNNEEDED, *row.without)
    return [
        r for r in PROJECT["dependency-groups"]["test"] if not r.startswith(unwanted)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    known = [r.name for r in ROWS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help=f"of: {', '.join(known)}; all without any",
    )
    parser.add_argument(
        "--keep", action="store_true", help="use the environments of an earlier run"
    )
    asked = parser.parse_args(argv)
    unknown = set(asked.rows) - set(known)
    if unknown:
        parser.error(f"unknown rows {sorted(unknown)}; there are: {', '.join(known)}")
    rows = [r for r in ROWS if not asked.rows or r.name in asked.rows]
    results = []
    for row in rows:
        print(f"== {row.name}", flush=True)
        results.append(run_row(row, keep=asked.keep))
        print(line_of(results[-1]), flush=True)
        write_tables(results[-1:])
    return 0 if all(r.good for r in results) else 1


def requirements(row: Row) -> list[str]:
    return ["--editable", f".[{','.join(row.extras)}]", *row.pins, *test_group(row)]


def run_row(row: Row, *, keep: bool) -> Result:
    """Make the environment, run the tests in it, count."""
    place = PLACE / row.name.replace(" ", "-")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (keep and (place / "made").exists()):
        venv.create(place, with_pip=UV is None, clear=True)
        problem = install(row, place, python)
        if problem:
            return Result(row, problem=problem)
        (place / "made").touch()
    report = place / "tests.xml"
    report.unlink(missing_ok=True)
    command = [python.with_name("pytest"), "-q", f"--junit-xml={report}", *row.tests]
    subprocess.run(command, cwd=ROOT, env=environment(python), check=False)
    return counted(row, report, installed(row, python))


def environment(python: Path) -> dict[str, str]:
    """Ours, and where NLTK's data lies: LlamaIndex 0.13 brings it along, but fetches it anew unless it is told."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    )
    return {
        **os.environ,
        "NLTK_DATA": str(Path(done.stdout.strip()) / "llama_index" / "core"),
    }


def install(row: Row, place: Path, python: Path) -> str:
    """Empty, or the first error of what resolves."""
    fixed = place / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    old = any("==" in pin for pin in row.pins)
    kept = [line for line in lines if old and not line.startswith((*FREE, "pip=="))]
    fixed.write_text("\n".join(kept) + "\n", "utf-8")
    pip: list[str | Path] = (
        [UV, "pip"] if UV else [python, "-m", "pip", "--disable-pip-version-check"]
    )
    # copies: NLTK refuses to read data files that are hard links into a cache
    own = ["--python", python, "--link-mode", "copy"] if UV else []
    options: list[str | Path] = [
        "--quiet",
        *own,
        "--constraint",
        fixed,
        "--find-links",
        ROOT / "build" / "weights",
    ]
    steps = [] if UV else [["--upgrade", "pip"]]
    if "end" in row.extras:
        steps.append([next(line for line in lines if line.startswith("torch=="))])
    steps.append(requirements(row))
    for step in steps:
        done = subprocess.run(
            [*pip, "install", *options, *step],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            (place / "problem.txt").write_text(done.stdout + done.stderr, "utf-8")
            return f"does not resolve: {place.relative_to(ROOT)}/problem.txt"
    return ""


def installed(row: Row, python: Path) -> dict[str, str]:
    """The versions that are there of the packages a row shows."""
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"  # noqa: E501
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    )
    there = {
        name.lower().replace("_", "-"): version
        for name, version in json.loads(done.stdout).items()
    }
    return {name: there[name] for name in row.shown if name in there}


def counted(row: Row, report: Path, versions: Mapping[str, str]) -> Result:
    """Passed, failed and skipped tests of a JUnit report."""
    if not report.exists():
        return Result(row, versions, problem="pytest wrote no report")
    failed, skipped, passed = [], 0, 0
    for case in ET.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Result(row, versions, passed, tuple(failed), skipped)


HEAD = "| row | versions | passed | failed | skipped |\n|---|---|---|---|---|"


def line_of(result: Result) -> str:
    """A row of the table, in Markdown."""
    row = result.row
    versions = ", ".join(
        f"{name} {version}" for name, version in result.versions.items()
    )
    failed = result.problem or str(len(result.failed))
    return (
        f"| {row.name} | {versions} | {result.passed} | {failed} | {result.skipped} |"
    )


def write_tables(results: Sequence[Result]) -> None:
    """Put the lines of ``results`` into their documents, between the two markers; other lines stay."""
    for result in results:
        path = ROOT / result.row.document
        text = path.read_text("utf-8")
        before, lines, after = table_in(text, path.name)
        lines[result.row.name] = line_of(result)
        order = [r.name for r in ROWS if r.name in lines]
        table = "\n".join([HEAD, *(lines[name] for name in order)])
        path.write_text(f"{before}{table}\n{after}", "utf-8")


def table_in(text: str, name: str) -> tuple[str, dict[str, str], str]:
    """What stands before the table, its lines by row, and what stands after it."""
    begin, end = "<!-- compat: written by make compat -->\n", "<!-- compat: end -->"
    if begin not in text or end not in text:
        raise SystemExit(
            f"{name}: expected the lines {begin.strip()!r} and {end!r} around the table"
        )
    before, rest = text.split(begin, 1)
    table, after = rest.split(end, 1)
    lines = {
        line.split("|")[1].strip(): line
        for line in table.splitlines()[2:]
        if line.startswith("|")
    }
    return before + begin, lines, end + after


if __name__ == "__main__":
    sys.exit(main())
