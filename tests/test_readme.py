"""The README shows both frameworks and the core, and its links lead somewhere; `tests/docs` runs its blocks."""

import re

from code_measures import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")


def test_there_are_examples_for_both_frameworks_and_the_core():
    examples = " ".join(re.findall(r"```python\n(.*?)```", TEXT, re.S))
    packages = {"langchain_denoise", "llamaindex_denoise", "denoise_core"}
    assert packages <= set(re.findall(r"\w+", examples))


def test_links_lead_somewhere():
    pictures = re.findall(r'src="([^"]+)"', TEXT)
    assert pictures, "it shows what it does"
    for target in [*re.findall(r"\]\((?!https?:)([^)#]+)", TEXT), *pictures]:
        assert (ROOT / target).exists(), target


def test_it_fits_three_screens():
    assert TEXT.count("\n") <= 160
