"""``rag-denoise-lab`` as a user types it."""

import pytest
from command_line import command_caller
from openai_server import serving
from tiny_models import build_probe, save_tiny_pair, tiny_pair

from denoise_core.evaluate.datasets import read_questions
from denoise_lab.command import main


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return command_caller(main, capsys, monkeypatch, "rag-denoise-lab")


@pytest.mark.enable_socket
def test_a_protocol_prints_its_tables_and_writes_them(command, tmp_path):
    class Knowing:
        def reply(self, text):
            return "CORRECT" if "INCORRECT" in text else "1974", 10

    with serving(Knowing()) as server:
        asked = f"protocol s2a --llm {server.url}#m -n 1 --right judge"
        status, out, err = command(f"{asked} --dry-run")
        assert status == 0
        assert server.requests == []
        assert "no call was made" in out
        status, out, err = command(asked)
        assert status == 0, err
        made = len(server.requests)
        assert command(asked)[0] == 0
        assert len(server.requests) == made  # all of it stands in answers.jsonl
    assert "[62.8]" in out
    assert "arXiv 2311.11829" in out
    for name in ("report.html", "tables.md", "results.json", "answers.jsonl"):
        assert (tmp_path / "denoise-evaluation" / name).stat().st_size > 500
    assert "<script" not in (tmp_path / "denoise-evaluation/report.html").read_text(
        "utf-8"
    )


def test_a_probe_of_another_model_is_told_before_any_work(command, tmp_path):
    save_tiny_pair(tmp_path / "other", seed=1)
    build_probe(*tiny_pair()).save(tmp_path / "probe")
    status, _, err = command("protocol end --probe probe --dry-run --llm other")
    assert status == 2
    assert "other values in the layers" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("s2a", "protocol s2a asks a model: name one with --llm"),
        (
            "s2a --llm http://127.0.0.1:9/v1#m --extended",
            "belong to the protocol 'end'",
        ),
        ("s2a --llm http://127.0.0.1:9/v1#m --out taken", "expected a folder"),
    ],
)
def test_what_cannot_be_used_ends_in_one_line(command, arguments, message, tmp_path):
    (tmp_path / "taken").write_text("")
    status, _, err = command(f"protocol {arguments}")
    assert status == 2
    assert message in err
    assert err.startswith("rag-denoise-lab: ")


def test_a_noisy_retrieval_set_is_made_and_read_back(command, tmp_path):
    (tmp_path / "prose.txt").write_text(
        "It was a dark night. The wind blew over the moor. " * 200
    )
    out = tmp_path / "set.jsonl"
    made = "noisy-retrieval prose.txt -o set.jsonl --level 2 -n 3"
    assert command(made)[0] == 0
    first = out.read_bytes()
    questions = read_questions(out).questions
    assert [(len(q.passages), len(q.gold)) for q in questions] == [(13, 1)] * 3
    assert command(made)[0] == 0
    assert out.read_bytes() == first
    failed = command("noisy-retrieval none.txt -o set.jsonl")
    assert failed.returncode == 2
    assert "none.txt" in failed.stderr
    assert out.read_bytes() == first
