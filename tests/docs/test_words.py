"""Troubleshooting quotes messages that are there; the glossary has each term once; versions agree."""

import ast
import re
import tomllib

import pytest
from code_measures import PACKAGES, ROOT, modules_of, parse_file

import denoise_core

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def nodes():
    trees = map(parse_file, modules_of(PACKAGES).values())
    return [node for tree in trees for node in ast.walk(tree)]


def messages(nodes):
    """Every text written in the packages, values in f-strings as ``{}``."""
    for node in nodes:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [getattr(part, "value", None) for part in parts]
        yield "".join(text if isinstance(text, str) else "{}" for text in texts)


def rows(page, column):
    text = (DOCS / page).read_text("utf-8")
    table = text[text.index(f"| {column} |") :].split("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]


def test_what_a_page_says_to_install_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pages = "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    extras = ",".join(re.findall(r"rag-denoise\[([\w,]+)\]", pages)).split(",")
    assert len(set(extras)) > 3
    assert set(extras) <= set(project["optional-dependencies"])


def test_every_quoted_message_is_one_that_is_written(nodes):
    written = set(messages(nodes))
    for column in ("the log says", "the message says"):
        quoted = [
            re.fullmatch(r"`(.+)`", row)[1]
            for row in rows("troubleshooting.md", column)
        ]
        assert len(quoted) >= 8
        assert not [q for q in quoted if not any(q in text for text in written)]


def test_every_fallback_that_is_logged_is_explained(nodes):
    """What is done in the place of the work is the third argument of `log_fallback`: each text is on the page."""
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    logged = []
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name("log_fallback"), args=[_, _, ast.Constant(done)]
            ):
                logged.append(done)
    assert len(logged) > 3
    assert not [done for done in logged if done not in page]


def test_the_changelog_has_the_release_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.M
    )
    assert released[0] == denoise_core.__version__
    assert changelog.index("## [Unreleased]") < changelog.index(f"## [{released[0]}]")
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {denoise_core.__version__}\n" in citation
