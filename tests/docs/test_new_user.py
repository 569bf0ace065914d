"""The way of a new user is as short as it is said to be, and its last command denoises a document."""

import shlex
import sys
from pathlib import Path

import pytest

from denoise_core.cli import main


@pytest.fixture
def way(docs_tool):
    return docs_tool("new_user")


def test_the_way_is_no_longer_than_it_may_be(way):
    assert 0 < len(way.commands()) <= way.COMMANDS
    counts = {
        framework: way.lines_of(code) for framework, code in way.applications().items()
    }
    assert counts.keys() == {"LangChain", "LlamaIndex"}
    assert max(counts.values()) <= way.LINES


def test_the_last_command_leaves_most_of_a_document_out(
    way, tmp_path, monkeypatch, capsys
):
    question, notes = way.own_document()
    (tmp_path / "notes.md").write_text(notes, "utf-8")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(way.asking(way.commands()[-1], question))
    assert Path(command[0]).name == "rag-denoise"
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    kept = capsys.readouterr().out
    assert "last working day of the month in Gdynia" in kept
    assert len(kept) < len(notes) / 3
