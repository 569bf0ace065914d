"""The README shows both frameworks and the core, and its links lead somewhere; `tests/docs` runs its blocks."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.S)


def test_there_are_examples_for_both_frameworks_and_the_core():
    text = "".join(EXAMPLE.findall(README.read_text("utf-8")))
    assert {"langchain_denoise", "llamaindex_denoise", "denoise_core"} <= set(
        re.findall(r"\w+", text)
    )


def test_links_lead_somewhere():
    text = README.read_text(encoding="utf-8")
    pictures = re.findall(r'src="([^"]+)"', text)
    assert pictures, "it shows what it does"
    for target in [*re.findall(r"\]\((?!https?:)([^)#]+)", text), *pictures]:
        assert (README.parent / target).exists(), target


def test_it_fits_three_screens():
    assert README.read_text(encoding="utf-8").count("\n") <= 160
