"""`make compat`: its rows fit the project, and its tables say what came of them."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def matrix():
    spec = importlib.util.spec_from_file_location(
        "compat_matrix", ROOT / "tests/compat/matrix.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_row_tests_what_is_there(matrix):
    for row in matrix.ROWS:
        for path in (*row.tests, *row.left_out):
            assert (ROOT / path).exists(), f"{row.name}: {path}"
        assert all(path.startswith(row.tests) for path in row.left_out)


def test_floors_are_those_the_project_declares(matrix):
    assert (
        matrix.floor("agents", "langchain")
        in next(r for r in matrix.ROWS if r.name == "langchain floor").pins
    )
    with pytest.raises(
        SystemExit, match=r"expected numpy>=\.\.\. in the extra 'agents'"
    ):
        matrix.floor("agents", "numpy")


def test_the_documents_hold_every_row_and_nothing_failed(matrix):
    for row in matrix.ROWS:
        _, lines, _ = matrix.table_in(
            (ROOT / row.document).read_text("utf-8"), row.document
        )
        _, name, versions, passed, failed, _ = (
            cell.strip() for cell in lines[row.name].split("|")[:6]
        )
        assert name == row.name
        assert int(passed) > 0
        assert failed == "0"
        for pin in row.pins:
            package, exact, version = pin.partition("==")
            if exact:
                found = re.search(rf"{re.escape(package)} ([\d.]+)", versions)
                assert found, f"{row.name} shows no {package}"
                assert f"{found[1]}.".startswith(f"{version}."), (
                    "make compat has not run since the floor changed"
                )


REPORT = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure/></testcase>
<testcase classname="a" name="broken"><error/></testcase>
<testcase classname="a" name="left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_and_a_skip_is_no_pass(matrix, tmp_path):
    row, report = matrix.ROWS[0], tmp_path / "tests.xml"
    report.write_text(REPORT, "utf-8")
    result = matrix.counted(row, report, {"langchain-core": "1.3.0"})
    assert (result.passed, result.failed, result.skipped) == (
        1,
        ("a::bad", "a::broken"),
        1,
    )
    assert not result.good
    assert "| langchain-core 1.3.0 | 1 | 2 | 1 |" in matrix.line_of(result)
    report.write_text(
        REPORT.split("<testcase classname", 1)[0] + "</testsuite></testsuites>", "utf-8"
    )
    assert not matrix.counted(row, report, {}).good, "no test at all is no pass"
    assert not matrix.counted(row, tmp_path / "none.xml", {}).good
