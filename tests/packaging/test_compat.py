"""`make compat`: its rows fit the project, and its tables say what came of them."""

import re
import sys

import pytest
from code_measures import ROOT

sys.path.insert(0, str(ROOT / "tests" / "compat"))

import matrix

ROWS = pytest.mark.parametrize("row", matrix.ROWS, ids=lambda row: row.name)


@ROWS
def test_every_row_tests_what_is_there(row):
    assert [path for path in row.tests if not (ROOT / path).exists()] == []


def test_floors_are_those_the_project_declares():
    (row,) = [row for row in matrix.ROWS if row.name == "langchain floor"]
    assert matrix.floor("agents", "langchain") in row.pins
    with pytest.raises(SystemExit, match=r"expected numpy.* in the extra 'agents'"):
        matrix.floor("agents", "numpy")


@ROWS
def test_the_documents_hold_every_row_and_nothing_failed(row):
    text = (ROOT / row.document).read_text("utf-8")
    _, lines, _ = matrix.table_in(text, row.document)
    name, versions, passed, failed = re.findall(r"[^|]+", lines[row.name])[:4]
    assert name.strip() == row.name
    assert failed.strip() == "0"
    assert int(passed) > 0
    for pin in row.pins:
        package, exact, version = pin.partition("==")
        if exact:  # else make compat has not run since the floor changed
            pattern = rf"{re.escape(package)} {re.escape(version)}[. ,]"
            assert re.search(pattern, versions), f"{row.name}: {pin}"


OUTPUT = "...F.s\n1 failed, 3 passed, 2 skipped, 5 warnings, 2 errors in 1.2s\n"


def test_what_pytest_says_is_counted_and_a_skip_is_no_pass():
    (row, *_) = matrix.ROWS
    line = matrix.table_line(row, "langchain-core 1.3.0", OUTPUT)
    assert line.endswith("| langchain-core 1.3.0 | 3 | 3 | 2 |")
    assert not matrix.is_passed(line)
    for output in ("no tests ran in 0.1s", "9 skipped in 1s", "", "does not resolve"):
        assert not matrix.is_passed(matrix.table_line(row, "", output))
    assert matrix.is_passed(matrix.table_line(row, "", "3 passed in 1s"))


def test_a_table_is_replaced_row_by_row_between_its_markers():
    line = "| one | x 1 | 2 | 0 | 0 |"
    text = f"Before.\n{matrix.TABLE_BEGIN}{matrix.HEAD}\n{line}\n{matrix.TABLE_END}\n"
    before, lines, after = matrix.table_in(text, "docs.md")
    assert lines == {"one": line}
    assert f"{before}{matrix.HEAD}\n{line}\n{after}" == text


@ROWS
def test_requirements_leave_the_other_framework_out(row):
    other = "llama-index" if row.document.endswith("/langchain.md") else "langchain"
    requirements = matrix.test_group(row)
    assert not [r for r in requirements if r.startswith(other)]
    assert any(r.startswith("pytest>=") for r in requirements)
