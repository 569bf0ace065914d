"""docs/langchain.md: its applications run, each alone, and the tests and names it speaks of are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "langchain.md"
APPLICATION = re.compile(
    r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL
)
APPLICATIONS = [*APPLICATION.finditer(PAGE.read_text("utf-8"))]


def test_each_block_of_the_page_is_an_application_with_its_output():
    assert PAGE.read_text("utf-8").count("```python") == len(APPLICATIONS) == 5


@pytest.mark.parametrize(
    "application",
    APPLICATIONS,
)
def test_an_application_prints_what_the_page_shows(
    application, tmp_path, monkeypatch, capsys, no_blocking_calls
):
    monkeypatch.chdir(tmp_path)
    no_blocking_calls.deactivate()  # an application prints and loads weights itself
    code = compile(
        application["code"],
        str(PAGE),
        "exec",
        dont_inherit=True,
    )
    exec(code, {"__name__": "application"})
    assert capsys.readouterr().out == application["output"]


def test_every_public_name_is_on_the_page():
    import langchain_denoise

    page = PAGE.read_text("utf-8")
    assert not [name for name in langchain_denoise.__all__ if name not in page]
