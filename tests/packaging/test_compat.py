"""`make compat`: its rows fit the project, and its tables say what came of them."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "compat"))

import matrix  # noqa: E402

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


REPORT = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure/></testcase>
<testcase classname="a" name="broken"><error/></testcase>
<testcase classname="a" name="left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_and_a_skip_is_no_pass(tmp_path):
    row, report = matrix.ROWS[0], tmp_path / "tests.xml"
    report.write_text(REPORT, "utf-8")
    result = matrix.counted(row, report, {"langchain-core": "1.3.0"})
    assert result.failed == ("a::bad", "a::broken")
    assert not result.good
    assert "| langchain-core 1.3.0 | 1 | 2 | 1 |" in matrix.line_of(result)
    report.write_text(re.sub("<testcase.*", "", REPORT), "utf-8")
    assert not matrix.counted(row, report, {}).good, "no test at all is no pass"
    assert not matrix.counted(row, tmp_path / "none.xml", {}).good


def test_a_table_is_replaced_row_by_row_between_its_markers():
    begin, end = "<!-- compat: written by make compat -->", "<!-- compat: end -->"
    line = "| one | x 1 | 2 | 0 | 0 |"
    text = f"Before.\n{begin}\n{matrix.HEAD}\n{line}\n{end}\nAfter.\n"
    before, lines, after = matrix.table_in(text, "docs.md")
    assert lines == {"one": line}
    assert f"{before}{matrix.HEAD}\n{line}\n{after}" == text


@ROWS
def test_requirements_leave_the_other_framework_out(row):
    other = "llama-index" if row.document.endswith("/langchain.md") else "langchain"
    requirements = matrix.test_group(row)
    assert not [r for r in requirements if r.startswith(other)]
    assert any(r.startswith("pytest>=") for r in requirements)
