"""``rag-denoise demo``: offline, its counts computed from recorded replies, and loud where one is missing."""

import json
import re
from importlib.resources import files

import pytest

from denoise_core import Message
from denoise_core.cli import main
from denoise_core.embedded.sample import sample_answers
from denoise_core.support.quoting import judge_prompt
from denoise_core.testing import RecordedLLM

SHIPPED = (files("denoise_core.embedded") / "data" / "demo_replies.jsonl").read_text(
    "utf-8"
)


@pytest.fixture
def demo(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["rag-denoise", "demo", *arguments])
        with pytest.raises(SystemExit) as end_seen:
            main()
        return (end_seen.value.code or 0, *capsys.readouterr())

    return call


def counts(out):
    return [
        tuple(map(int, results))
        for results in re.findall(r"(\d+) of (\d+) \(\d+%\)", out)
    ]


def recorded(name, verdict):
    """The first three questions' replies, each with this verdict."""
    lines = []
    for row in map(json.loads, SHIPPED.splitlines()[:6]):
        lines.append(json.dumps(row | {"reply": f"1 {verdict}\nanswers"}))
    with open(name, "w", encoding="utf-8") as out:
        out.write("\n".join(lines))


def test_it_runs_offline_and_says_where_its_verdicts_are_from(demo, tmp_path):
    status, out, err = demo("--questions", "3")
    assert status == 0, err
    assert counts(out) == [(3, 3), (3, 3), (3, 3)]
    source = (
        "replies recorded from a large language model, 2026-11-28, prompt version 2"
    )
    assert source in out
    assert source in (tmp_path / "denoise-demo.html").read_text("utf-8")


def test_other_replies_give_other_counts(demo, tmp_path):
    recorded("none.jsonl", "not_stated")
    assert counts(demo("--questions", "3", "--replies", "none.jsonl")[1])[1:] == [
        (0, 3),
        (3, 3),
    ]
    recorded("all.jsonl", "inferred 1.1")
    assert counts(demo("--questions", "3", "--replies", "all.jsonl")[1])[1:] == [
        (3, 3),
        (0, 3),
    ]


def test_a_prompt_without_a_reply_is_an_error_that_says_how_to_record_it(
    demo, tmp_path
):
    (tmp_path / "some.jsonl").write_text("\n".join(SHIPPED.splitlines()[1:6]), "utf-8")
    status, out, err = demo("--questions", "3", "--replies", "some.jsonl")
    assert (status, out) == (2, "")
    assert "no recorded reply for 1 of 6 prompts" in err
    assert "rag-denoise record denoise-demo.prompts.jsonl" in err
    (line,) = (tmp_path / "denoise-demo.prompts.jsonl").read_text("utf-8").splitlines()
    key = RecordedLLM.key([Message(**m) for m in json.loads(line)["messages"]])
    assert key == json.loads(SHIPPED.splitlines()[0])["prompt"]


def test_what_is_no_recording_is_refused(demo, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"prompt": 1}', "utf-8")
    status, _, err = demo("--questions", "1", "--replies", "bad.jsonl")
    assert (
        status,
        "bad.jsonl: expected replies as 'rag-denoise record' writes them" in err,
    ) == (2, True)


def test_every_answer_has_one_reply_and_no_reply_is_left_over():
    prompts = [
        judge_prompt(p.question.text, answer, p.question.passages)
        for p in sample_answers()
        for answer in (p.right_answer, p.wrong_answer)
    ]
    keys = [json.loads(line)["prompt"] for line in SHIPPED.splitlines()]
    assert sorted(keys) == sorted(map(RecordedLLM.key, prompts))
