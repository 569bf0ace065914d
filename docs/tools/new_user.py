"""``python docs/tools/new_user.py``: the way of a new user, timed; needs git, make and the package index.

From a fresh clone of the last commit to the first denoised result of one's own document, for which an employee
handbook stands (invented, by another hand, CC0). The code from there to a RAG application stands in
``docs/start.md`` and is run by its test; its lines are counted. Fails when the way takes more commands or lines
than it may, or when more than a third of the document was kept.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS, LINES = 3, 15
HANDBOOK = ROOT / "docs" / "tools" / "handbook.md"


def commands() -> list[str]:
    """The commands of the page's first section."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    section = page.split("## Your own documents, denoised")[1].split("\n## ")[0]
    return re.findall(r"^    (.+)$", section.split("Without a clone:")[0], re.M)


def own_document() -> tuple[str, str]:
    """A question, and a text of some 8,700 characters that answers it in one place."""
    return "when do we get paid at the polish site?", HANDBOOK.read_text("utf-8")


def asking(step: str, question: str) -> str:
    """The command of the page with another question."""
    return re.sub(r'(?<=--query )"[^"]*"', lambda _: shlex.quote(question), step)


def applications() -> dict[str, str]:
    """The page's two RAG applications, by framework."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    parts = re.findall(r"### (\w+)\n.*?```python\n(.*?)```", page, re.S)
    return dict(parts)


def lines_of(code: str) -> int:
    """Lines that do something: no blank lines, no comments."""
    return len([line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")])


def main() -> None:
    steps, total, said = commands(), 0.0, ""
    question, notes = own_document()
    assert len(steps) <= COMMANDS, f"{len(steps)} commands, {COMMANDS} at most"
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "rag-denoise"
        for step in steps:
            command = asking(re.sub(r"https://\S+", str(ROOT), step), question)
            where = folder if command.startswith("git clone") else str(clone)
            began = time.monotonic()
            done = subprocess.run(command, shell=True, cwd=where, check=True, stdout=subprocess.PIPE, text=True)
            said = done.stdout
            total += time.monotonic() - began
            print(f"{time.monotonic() - began:7.1f} s  {step}", flush=True)
            if clone.is_dir():
                (clone / "notes.md").write_text(notes, "utf-8")
        print(f"{total:7.1f} s  from a clone to one's own documents denoised: {len(steps)} commands")
        assert 0 < len(said) < len(notes) / 3, f"{len(said)} of {len(notes)} characters were kept"
        print(f"{len(said):7,} of {len(notes):,} characters kept")
    for framework, code in applications().items():
        count = lines_of(code)
        assert count <= LINES, f"{framework}: {count} lines, {LINES} at most"
        print(f"{count:7} lines of code from there to a RAG application in {framework}")


if __name__ == "__main__":
    sys.exit(main())
