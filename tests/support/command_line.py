"""A command of this project, run in this process as a user types it."""

import io
import shlex
from typing import NamedTuple

import pytest


class CommandRun(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def command_caller(main, capsys, monkeypatch, program="rag-denoise", columns="80"):
    """Return a function that runs ``main`` with a line of arguments."""
    monkeypatch.setenv("COLUMNS", columns)

    def call(line, stdin=""):
        monkeypatch.setattr("sys.argv", [program, *shlex.split(line)])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main()
        return CommandRun(ended.value.code or 0, *capsys.readouterr())

    return call
