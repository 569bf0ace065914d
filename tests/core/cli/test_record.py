"""Replies recorded with the command are replayed without the model."""

import json

import pytest
from command_line import command_caller
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
    seen_prompts = [
        json.dumps(json.loads(line) | {"id": f"q{n}"})
        for n, line in enumerate(unknown.missing_prompts)
    ]
    (tmp_path / "prompts.jsonl").write_text("\n".join(seen_prompts))
    return tmp_path / "prompts.jsonl"


@pytest.fixture
def server_url():
    """A model over HTTP that keeps the first piece; ``seen`` has what it was asked."""
    seen = []

    def answer(seen_prompts):
        seen.append(seen_prompts["messages"])
        if "Rain" in str(seen_prompts["messages"]) and "fail" in seen:
            return json_reply({"choices": 3})
        return chat_reply("1")

    with answering(answer) as url:
        yield f"{url}/v1#m", seen


def test_what_was_recorded_is_replayed_and_nothing_is_asked_twice(
    command, prompts, server_url, tmp_path
):
    url, seen = server_url
    completed_run = command(f"out.jsonl --llm {url}")
    assert completed_run.returncode == 0, completed_run.stderr
    assert seen == [
        json.loads(line)["messages"] for line in prompts.read_text().splitlines()
    ]
    rows = [
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    assert {(r["reply"], r["model"], r["id"]) for r in rows} == {
        ("1", url, f"q{n}") for n in range(len(rows))
    }
    replayed = RecordedLLM.from_file(tmp_path / "out.jsonl")
    result = S2ADenoiser(replayed, variant="select").denoise(QUESTION, PASSAGES)
    assert replayed.missing_prompts == []
    assert result.passages[0].text == "It was built in 1889. "
    seen_prompts = len(seen)
    second_result = command(f"out.jsonl --llm {url}")
    assert (second_result.returncode, len(seen)) == (0, seen_prompts)
    assert (
        "It was built"
        not in completed_run.stderr + completed_run.stdout + second_result.stderr
    )


def test_a_call_that_fails_is_told_without_its_text_and_asked_again(
    command, prompts, server_url, tmp_path
):
    url, seen = server_url
    lines = [
        {"messages": [{"role": "user", "content": reply_text}]}
        for reply_text in ("Sun.", "Rain.")
    ]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    seen.append("fail")
    completed_run = command(f"out.jsonl --llm {url}")
    assert completed_run.returncode == 1
    assert "1 failed, the first prompt 2" in completed_run.stderr
    assert "Rain" not in completed_run.stderr
    seen.clear()
    assert command(f"out.jsonl --llm {url}").returncode == 0
    assert [m[0]["content"] for m in seen] == ["Rain."]
    replayed = RecordedLLM.from_file(tmp_path / "out.jsonl")
    assert replayed.complete([Message("user", "Rain.")]).text == "1"


def test_a_refused_key_ends_the_recording_at_its_first_call(command, prompts, tmp_path):
    prompts.write_text('{"messages": [{"role": "user", "content": "Rain."}]}\n' * 9)
    seen_prompts = []

    def refuse(asked):
        seen_prompts.append(asked)
        return json_reply({}, 401)

    with answering(refuse) as url:
        completed_run = command(f"out.jsonl --llm {url}/v1#m")
    assert (completed_run.returncode, len(seen_prompts)) == (2, 1)
    assert "401" in completed_run.stderr
    assert "Rain" not in completed_run.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_a_dry_run_asks_nothing_and_writes_nothing(
    command, prompts, server_url, tmp_path
):
    url, seen = server_url
    completed_run = command(f"out.jsonl --llm {url} --dry-run")
    assert (completed_run.returncode, seen) == (0, [])
    assert "no call was made" in completed_run.stdout
    assert not (tmp_path / "out.jsonl").exists()


def test_a_line_without_messages_is_named_with_what_to_write(
    command, prompts, tmp_path
):
    prompts.write_text('{"prompt": "x"}')
    completed_run = command("out.jsonl --llm http://127.0.0.1:9/v1#m")
    assert completed_run.returncode == 2
    assert 'line 1: expected {"messages":' in completed_run.stderr


def test_an_unknown_prompt_raises_and_is_kept():
    llm = RecordedLLM({})
    with pytest.raises(KeyError):
        llm.complete([Message("user", "new")])
    assert json.loads(llm.missing_prompts[0]) == {
        "messages": [{"role": "user", "content": "new"}]
    }
