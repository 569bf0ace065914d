"""Replies recorded with the command are replayed without the model."""

import json

import pytest
from command_line import command_caller
from json_files import write_json_lines
from local_server import answering, chat_reply, json_reply

from denoise_core import Message
from denoise_core.cli import main
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import RecordedLLM
from denoise_core.types import Passage

pytestmark = pytest.mark.enable_socket
QUESTION = "When was it built?"
PASSAGES = [Passage("It was built in 1889. I like it.", "a"), Passage("Rain.", "b")]


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call = command_caller(main, capsys, monkeypatch)
    return lambda line: call(f"record {tmp_path}/prompts.jsonl {line}")


@pytest.fixture
def prompts(tmp_path):
    """The prompts that a denoiser sends, which nobody has answered yet."""
    unknown = RecordedLLM({})
    S2ADenoiser(unknown, variant="select").denoise(QUESTION, PASSAGES)
    records = [json.loads(line) | {"id": "q"} for line in unknown.missing_prompts]
    return write_json_lines(tmp_path / "prompts.jsonl", *records)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class OneModel:
    """Keeps the first piece, and fails at a prompt with ``fails_at``; ``seen`` is what it was asked."""

    fails_at = "no such words"

    def __init__(self):
        self.seen = []

    def __call__(self, asked):
        self.seen.append(asked["messages"])
        if self.fails_at in str(asked["messages"]):
            return json_reply({"choices": 3})
        return chat_reply("1")


@pytest.fixture
def model():
    return OneModel()


@pytest.fixture
def url(model):
    with answering(model) as address:
        yield f"{address}/v1#m"


def test_what_was_recorded_is_replayed_and_nothing_is_asked_twice(
    command, prompts, model, url, tmp_path
):
    first = command(f"out.jsonl --llm {url}")
    assert first.returncode == 0, first.stderr
    asked = [row["messages"] for row in rows_of(prompts)]
    assert model.seen == asked
    for row in rows_of(tmp_path / "out.jsonl"):
        assert (row["reply"], row["model"], row["id"]) == ("1", url, "q")
    replayed = RecordedLLM.from_file(tmp_path / "out.jsonl")
    result = S2ADenoiser(replayed, variant="select").denoise(QUESTION, PASSAGES)
    assert replayed.missing_prompts == []
    assert result.passages[0].text == "It was built in 1889. "
    second = command(f"out.jsonl --llm {url}")
    assert (second.returncode, model.seen) == (0, asked)
    assert "It was built" not in first.stderr + first.stdout + second.stderr


def test_a_call_that_fails_is_told_without_its_text_and_asked_again(
    command, prompts, model, url, tmp_path
):
    asked = [{"messages": [{"role": "user", "content": t}]} for t in ("Sun.", "Rain.")]
    write_json_lines(prompts, *asked)
    model.fails_at = "Rain"
    completed_run = command(f"out.jsonl --llm {url}")
    assert completed_run.returncode == 1
    assert "1 failed, the first prompt 2" in completed_run.stderr
    assert "Rain" not in completed_run.stderr
    model.seen.clear()
    del model.fails_at
    assert command(f"out.jsonl --llm {url}").returncode == 0
    assert model.seen == [asked[1]["messages"]]
    replayed = RecordedLLM.from_file(tmp_path / "out.jsonl")
    assert replayed.complete([Message("user", "Rain.")]).text == "1"


def test_a_refused_key_ends_the_recording_at_its_first_call(command, prompts, tmp_path):
    prompts.write_text('{"messages": [{"role": "user", "content": "Rain."}]}\n' * 9)
    asked = []
    with answering(lambda body: asked.append(body) or json_reply({}, 401)) as address:
        completed_run = command(f"out.jsonl --llm {address}/v1#m")
    assert (completed_run.returncode, len(asked)) == (2, 1)
    assert "401" in completed_run.stderr
    assert "Rain" not in completed_run.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"messages": [{"role": "user", "content": "x"}]}', "start the server"),
        ('{"prompt": "x"}', 'line 1: expected {"messages":'),
    ],
)
def test_a_server_that_is_down_or_a_line_without_messages_leaves_the_file(
    command, prompts, tmp_path, line, message
):
    prompts.write_text(line)
    recorded = tmp_path / "out.jsonl"
    recorded.write_text("recorded before")
    completed_run = command("out.jsonl --llm http://127.0.0.1:9/v1#m")
    assert completed_run.returncode == 2
    assert message in completed_run.stderr
    assert recorded.read_text() == "recorded before"
