"""Type checkers find what people mistype: run on one file of right lines and twenty mistakes."""

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/langchain/typed/mistakes.py"


def test_mypy_finds_at_least_eighteen_of_twenty_mistakes_and_no_other():
    lines = FILE.read_text("utf-8").splitlines()
    seeded = {n for n, line in enumerate(lines, 1) if "# mistake" in line}
    message_text, _, _ = api.run(
        [
            "--config-file",
            str(ROOT / "pyproject.toml"),
            str(FILE),
        ]
    )
    found_documents = {
        int(n) for n in re.findall(r"mistakes\.py:(\d+): error", message_text)
    }
    assert len(seeded) == 20
    assert found_documents <= seeded, message_text
    assert len(found_documents) >= 18, message_text
