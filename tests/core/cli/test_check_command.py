"""``rag-denoise check``: each claim with its verdict and its quote by file and line, and a status by outcome."""

import json
import re

import pytest
from openai_server import serving
from typer.testing import CliRunner

from denoise_core.cli import check as command
from denoise_core.cli import load_app
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict, Quote
from denoise_core.support.quoting import MAX_UNITS
from denoise_core.types import Span

TEXT = "First line.\nThe tower was completed in 1889.\nIt stands in <Paris>."


class Quotes:
    """Supports what is in the file word for word."""

    id = "quotes for tests"

    def judge(self, question, claims, passages):
        verdicts = []
        for claim in claims:
            place = (claim.text, claim.start, claim.end)
            verdict = ClaimVerdict(*place, False, 0.1, (), (), *["unsupported"] * 2)
            for passage in passages:
                start = passage.text.find(claim.text)
                if start >= 0:
                    span = Span(passage.id, start, start + len(claim.text))
                    quote = Quote(span, claim.text)
                    verdict = ClaimVerdict(*place, True, 0.9, (quote,))
            verdicts.append(verdict)
        return AnswerVerdict.of_claims(verdicts, answers_question=True)

    async def ajudge(self, question, claims, passages):
        return self.judge(question, claims, passages)


@pytest.fixture
def seen_prompts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        command,
        "judge_from_option",
        lambda llm: None if llm == "none" else Quotes(),
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tower.md").write_text(TEXT, "utf-8")

    def run(answer, more=""):
        (tmp_path / "answer.md").write_text(answer, "utf-8")
        line = f"check -q When? -a {tmp_path}/answer.md -p {tmp_path}/docs {more}"
        return CliRunner().invoke(load_app("check"), line)

    return run


def test_claims_are_shown_with_verdict_and_line(seen_prompts):
    results = seen_prompts("The tower was completed in 1889.")
    assert results.exit_code == 0, results.output
    assert "supported 0.90" in results.output
    assert "tower.md:2" in results.output
    wrong = seen_prompts("The tower was completed in 1889. It was sold.")
    assert wrong.exit_code == 3
    assert "unsupported" in wrong.output


def test_json_holds_verdicts_and_places(seen_prompts):
    run = seen_prompts("The tower was completed in 1889.", "--json")
    results = json.loads(run.output)
    assert (results["outcome"], results["judge"]) == ("supported", "quotes for tests")
    (claim,) = results["claims"]
    assert (claim["verdict"], claim["differences"]) == ("supported", [])
    (quote,) = claim["quotes"]
    assert (quote["file"], quote["line"]) == ("tower.md", 2)
    assert TEXT[quote["start"] : quote["end"]] == quote["text"]


def test_without_a_judge_each_claim_has_its_nearest_sentence_and_what_differs(
    seen_prompts,
):
    results = seen_prompts("The tower was completed in 1890.", "--llm none")
    assert results.exit_code == 4, results.output
    assert "unknown" in results.output
    assert "tower.md:2" in results.output
    assert "'1890', where the source has '1889'" in results.output


def test_the_page_leads_from_a_claim_to_its_quote_and_escapes(seen_prompts, tmp_path):
    answer = "The tower was completed in 1889. It stands in <Paris>."
    seen_prompts(answer, f"--html {tmp_path}/page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    targets, ids = (set(re.findall(rf'{x}="([^"]+)"', html)) for x in ("href", "id"))
    assert len(targets) >= 2
    assert {target.removeprefix("#") for target in targets} <= ids
    assert "<Paris>" not in html
    assert 'class="quote supports"' in html


class Lines:
    """A server's model that judges: the first unit is supported, each other one not stated."""

    def reply(self, text):
        numbers = re.findall(r"(?m)^(\d+): ", text)
        lines = [f"{number} not_stated" for number in numbers[1:]]
        return "\n".join(["1 supported 1.2", *lines, "answers"]), 1


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        ("The tower was completed in 1889.", 0, "supported"),
        ("The tower was completed in 1889. It has twins.", 3, "partly supported"),
        ("The tower was completed in 1890.", 4, "unknown"),
        ("…", 3, "unsupported"),
    ],
)
def test_a_served_model_judges_and_its_reply_may_be_long(
    tmp_path, answer, status, outcome
):
    (tmp_path / "tower.md").write_text(TEXT, "utf-8")
    (tmp_path / "answer.md").write_text(answer, "utf-8")
    with serving(Lines()) as server:
        files = f"-a {tmp_path}/answer.md -p {tmp_path}/tower.md"
        line = f"check {files} --json --llm {server.url}#m"
        result = CliRunner().invoke(load_app("check"), line)
    assert result.exit_code == status, result.output
    assert json.loads(result.output)["outcome"] == outcome
    for request in server.requests:
        limit = request.get("max_tokens") or request["max_completion_tokens"]
        assert limit >= 32 * MAX_UNITS


def test_a_quotation_that_is_nowhere_is_shown_also_without_a_model(seen_prompts):
    result = seen_prompts("It says “was completed in 1890”.", "--llm none")
    assert "nowhere: “was completed in 1890”" in result.output


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
    assert (quote["text"], quote["line"]) == ("It is open until 17:30.", 2)


def test_without_a_judge_its_absence_is_said_once(seen_prompts):
    result = seen_prompts("The tower is old. It has twins.", "--llm none")
    assert result.output.count("no judge has read it") == 1
