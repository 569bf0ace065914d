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
    ids=range(len(APPLICATIONS)),
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


def test_the_tests_and_names_it_speaks_of_are_there():
    from langchain.agents import middleware as theirs

    import langchain_denoise
    from langchain_denoise import middleware

    page = PAGE.read_text("utf-8")
    for path in re.findall(r"`(tests/[\w/]+\.py)`", page):
        assert (ROOT / path).exists(), path
    for notebook in re.findall(r"\]\(\.\./(cookbook/\w+\.ipynb)\)", page):
        assert (ROOT / notebook).exists(), notebook
    there = (langchain_denoise, theirs, middleware)
    for name in re.findall(r"`(\w+Middleware|DenoiseTool\w*)`", page):
        assert any(hasattr(part, name) for part in there), name
    public = set(langchain_denoise.__all__)
    assert {n for n in public if n not in page} <= {"DenoiseInput"}
