"""``rag-denoise check``: each claim with its verdict and its quote by file and line, and a status by outcome."""

import json
import re

import pytest
from typer.testing import CliRunner

from denoise_core.cli import load_app
from denoise_core.support.quoting import MAX_UNITS

pytestmark = pytest.mark.enable_socket

TEXT = "First line.\nThe tower was completed in 1889.\nIt stands in <Paris>."


class FirstSupported:
    """A server's model that judges: the first unit is supported, each other one not stated."""

    def reply(self, text):
        numbers = re.findall(r"(?m)^(\d+): ", text)
        lines = [f"{number} not_stated" for number in numbers[1:]]
        return "\n".join(["1 supported 1.2", *lines, "answers"]), 1


@pytest.fixture
def check(tmp_path):
    """Runs the command on an answer and a folder."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tower.md").write_text(TEXT, "utf-8")

    def run(answer, options=""):
        (tmp_path / "answer.md").write_text(answer, "utf-8")
        line = f"check -q When? -a {tmp_path}/answer.md -p {tmp_path}/docs {options}"
        return CliRunner().invoke(load_app("check"), line)

    return run


@pytest.fixture
def judged(check, server):
    """The same with a judge."""
    server.model = FirstSupported()
    return lambda answer, options="": check(answer, f"{options} --llm {server.url}#m")


def test_claims_are_shown_with_verdict_and_line(judged):
    results = judged("The tower was completed in 1889. It was sold.")
    assert results.exit_code == 3, results.output
    for shown in ("1. supported", "tower.md:2", "2. unsupported"):
        assert shown in results.output


def test_json_holds_verdicts_and_places(judged):
    run = judged("The tower was completed in 1889.", "--json")
    results = json.loads(run.output)
    (claim,) = results["claims"]
    assert (claim["supported"], claim["differences"]) == (True, [])
    (quote,) = claim["quotes"]
    span = quote["span"]
    assert span["passage_id"] == "tower.md"
    assert TEXT[span["start"] : span["end"]] == quote["text"]


def test_without_a_judge_each_claim_has_its_nearest_sentence_and_what_differs(
    check,
):
    answer = "The tower was completed in 1890. It says “was completed in 1890”."
    results = check(answer)
    assert results.exit_code == 4, results.output
    for shown in (
        "unknown",
        "tower.md:2",
        "'1890', where the source has '1889'",
        "nowhere: “was completed in 1890”",
    ):
        assert shown in results.output
    assert results.output.count("no judge has read it") == 1


def test_the_page_leads_from_a_claim_to_its_quote_and_escapes(judged, tmp_path):
    answer = "The tower was completed in 1889. It stands in <Paris>."
    judged(answer, f"--html {tmp_path}/page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    targets, ids = (set(re.findall(rf'{x}="([^"]+)"', html)) for x in ("href", "id"))
    assert len(targets) >= 2
    assert {target.removeprefix("#") for target in targets} <= ids
    assert "<Paris>" not in html
    assert 'class="quote supports"' in html


@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        ("The tower was completed in 1889.", 0, "supported"),
        ("The tower was completed in 1889. It has twins.", 3, "partly supported"),
        ("The tower was completed in 1890.", 4, "unknown"),
        ("…", 4, "unknown"),
    ],
)
def test_a_served_model_judges_and_its_reply_may_be_long(
    judged, server, answer, status, outcome
):
    result = judged(answer, "--json -q ''")  # no question is asked either
    assert result.exit_code == status, result.output
    assert json.loads(result.output)["outcome"] == outcome
    for request in server.requests:
        limit = request.get("max_tokens") or request["max_completion_tokens"]
        assert limit >= 32 * MAX_UNITS


def test_of_a_page_the_text_is_compared_that_its_reader_sees(tmp_path):
    page = (
        "<html><body><h1>Desk</h1>\n<p>It is <b>open</b> until 17:30.</p></body></html>"
    )
    (tmp_path / "desk.html").write_text(page)
    (tmp_path / "answer.html").write_text("<p>It is <i>open</i> until 18:00.</p>")
    line = f"check -a {tmp_path}/answer.html -p {tmp_path}/desk.html --json"
    result = CliRunner().invoke(load_app("check"), line)
    (claim,) = json.loads(result.output)["claims"]
    assert claim["text"] == "It is open until 18:00."
    (quote,) = claim["quotes"]
    assert quote["text"] == "It is open until 17:30."
