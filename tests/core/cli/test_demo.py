"""``rag-denoise demo``: offline, its counts computed from recorded replies, none of which is missing."""

import json
import re
import shlex
from importlib.resources import files

import pytest
from command_line import command_caller
from judging import judge_prompt

from denoise_core.cli import main
from denoise_core.embedded.sample import sample_answers
from denoise_core.testing import RecordedLLM

SHIPPED = (files("denoise_core.embedded") / "data" / "demo_replies.jsonl").read_text(
    "utf-8"
)


@pytest.fixture
def demo(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call = command_caller(main, capsys, monkeypatch, columns="100")
    return lambda *arguments: call(shlex.join(["demo", *arguments]))


def test_it_runs_offline_and_says_where_its_verdicts_are_from(demo, tmp_path):
    status, out, err = demo("--questions", "1")
    assert status == 0, err
    assert re.findall(r"\d+ of \d+ \(\d+%\)", out) == ["1 of 1 (100%)"] * 3
    source = (
        "replies recorded from a large language model, 2026-11-28, prompt version 2"
    )
    assert source in out
    assert source in (tmp_path / "denoise-demo.html").read_text("utf-8")


def test_every_answer_has_one_reply_and_no_reply_is_left_over():
    prompts = [
        judge_prompt(p.question.text, answer, p.question.passages)
        for p in sample_answers()
        for answer in (p.right_answer, p.wrong_answer)
    ]
    keys = [json.loads(line)["prompt"] for line in SHIPPED.splitlines()]
    assert sorted(keys) == sorted(map(RecordedLLM.key, prompts))
