"""`rag-denoise report`: the counts of a file in words."""

import pytest
from typer.testing import CliRunner

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core.cli import load_app
from denoise_core.shadow import ShadowCall, ShadowLog

PASSAGES = (Passage("It opened in 1889. " * 40, "a"), Passage("It is red.", "b"))


@pytest.fixture
def shadow_file(tmp_path):
    log = ShadowLog(tmp_path / "shadow.jsonl")
    for number in range(3):
        result = DenoiseResult("When?", PASSAGES[1:])
        log.add_call(f"request-{number}", ShadowCall.from_result(PASSAGES, result))
        log.add_answer(f"request-{number}", "In 1889." if number == 1 else "Red.")
    return log.path


def report(path):
    return CliRunner().invoke(load_app("report"), f"report {path}")


def test_the_report_names_the_requests_that_lost_something(shadow_file):
    lines = shadow_file.read_text("utf-8")
    shadow_file.write_text(lines, "utf-8-sig")  # as Windows writes it
    output = report(shadow_file).output
    assert "requests: 3\nanswered: 3\n" in output
    assert "passages: 6\ndropped: 3\n" in output
    assert "what would be left out: 1\n  request-1: 1 fact" in output


def test_a_damaged_line_is_named(shadow_file):
    shadow_file.write_text(shadow_file.read_text("utf-8") + "{}\n", "utf-8")
    error = report(shadow_file).exception
    assert isinstance(error, InputError)
    assert "line 4" in str(error)


def test_an_id_may_hold_any_separator_of_lines(tmp_path):
    log = ShadowLog(tmp_path / "shadow.jsonl")
    passages = (Passage("It is red.", "a\u2028b"),)
    call = ShadowCall.from_result(passages, DenoiseResult("When?", ()))
    log.add_call("request", call)
    log.add_answer("request", 'It says "It is red." [1]')
    assert report(log.path).exit_code == 0
