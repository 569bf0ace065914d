"""A command of this project, run in this process as a user types it; and Python in a process of its own."""

import io
import shlex
import subprocess
import sys
from typing import NamedTuple

import pytest


class CommandRun(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def text_stream(text):
    """What standard input is: text over bytes."""
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def command_caller(main, capsys, monkeypatch, program="rag-denoise", columns="80"):
    """Return a function that runs ``main`` with a line of arguments."""
    monkeypatch.setenv("COLUMNS", columns)

    def call(line, stdin=""):
        monkeypatch.setattr("sys.argv", [program, *shlex.split(line)])
        monkeypatch.setattr("sys.stdin", text_stream(stdin))
        with pytest.raises(SystemExit) as ended:
            main()
        return CommandRun(ended.value.code or 0, *capsys.readouterr())

    return call


def run_python(*arguments, **options):
    """A process of this Python that has ended; ``options`` are those of `subprocess.run`."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


def python_output(*arguments, **options):
    """What such a process printed, which has not failed."""
    done = run_python(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
