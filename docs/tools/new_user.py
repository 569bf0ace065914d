"""``python docs/tools/new_user.py``: the way of a new user, timed; needs git, make and the package index.

From a fresh clone of the last commit to the first denoised result of one's own document. The code from there to a
RAG application stands in ``docs/start.md`` and is run by its test; its lines are counted. Fails when the way takes
more commands or lines than it may.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS, LINES = 3, 15
NOTES = "The tower was finished in 1889.\n\nBananas are rich in potassium.\n\nParis has many bakeries.\n"


def commands() -> list[str]:
    """The commands of the page's first section."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    section = page.split("## Your own documents, denoised")[1].split("\n## ")[0]
    return re.findall(r"^    (.+)$", section.split("Without a clone:")[0], re.M)


def applications() -> dict[str, str]:
    """The page's two RAG applications, by framework."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    parts = re.findall(r"## A RAG application in (\w+)\n.*?```python\n(.*?)```", page, re.S)
    return dict(parts)


def lines_of(code: str) -> int:
    """Lines that do something: no blank lines, no comments."""
    return len([line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")])


def main() -> None:
    steps, total = commands(), 0.0
    assert len(steps) <= COMMANDS, f"{len(steps)} commands, {COMMANDS} at most"
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "rag-denoise"
        for step in steps:
            said = re.sub(r"https://\S+", str(ROOT), step)
            where = folder if said.startswith("git clone") else str(clone)
            began = time.monotonic()
            subprocess.run(said, shell=True, cwd=where, check=True, stdout=subprocess.DEVNULL)
            total += time.monotonic() - began
            print(f"{time.monotonic() - began:7.1f} s  {step}", flush=True)
            if clone.is_dir():
                (clone / "notes.md").write_text(NOTES, "utf-8")
        print(f"{total:7.1f} s  from a clone to one's own documents denoised: {len(steps)} commands")
    for framework, code in applications().items():
        count = lines_of(code)
        assert count <= LINES, f"{framework}: {count} lines, {LINES} at most"
        print(f"{count:7} lines of code from there to a RAG application in {framework}")


if __name__ == "__main__":
    sys.exit(main())
