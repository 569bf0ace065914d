"""The way of a new user is as short as it is said to be, and its last command denoises a document."""

from pathlib import Path

import pytest
from command_line import command_caller

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
    program, line = way.asking(way.commands()[-1], question).split(maxsplit=1)
    assert Path(program).name == "rag-denoise"
    done = command_caller(main, capsys, monkeypatch)(line)
    assert done.returncode == 0
    assert "last working day of the month in Gdynia" in done.stdout
    assert len(done.stdout) < len(notes) / 3
