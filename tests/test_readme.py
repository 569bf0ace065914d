"""The README's examples run, and print what the README says they print."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```)?", re.S)
EXAMPLES = list(EXAMPLE.finditer(README.read_text(encoding="utf-8")))


def test_there_are_examples_for_both_frameworks_and_the_core():
    text = "".join(e["code"] for e in EXAMPLES)
    assert all(name in text for name in ("langchain_denoise", "llamaindex_denoise", "denoise_core.augmenter"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"line-{e.string[: e.start()].count(chr(10)) + 1}")
def test_an_example_prints_what_it_says(example):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example["code"], str(README), "exec"), {"__name__": "readme"})
    assert example["output"] is not None, "every example shows its output"
    assert printed.getvalue() == example["output"]


def test_links_lead_somewhere():
    text = README.read_text(encoding="utf-8")
    pictures = re.findall(r'src="([^"]+)"', text)
    assert pictures, "it shows what it does"
    for target in [*re.findall(r"\]\((?!https?:)([^)#]+)", text), *pictures]:
        assert (README.parent / target).exists(), target


def test_it_fits_three_screens():
    assert README.read_text(encoding="utf-8").count("\n") <= 160
