"""The command ``rag-denoise``: arguments in, printed results and exit statuses out.

Each verb has a module of its name (`COMMAND_MODULES`); read `run` first. `options` has
the options that verbs share, `read` loads passages from files, `convert` is the place
for a new file format, `terminal` prints. A new verb needs a module and an entry in
`COMMAND_MODULES`.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

from denoise_core.errors import DenoiseError, format_error, is_auth_refusal

COMMAND_MODULES = {
    "demo": "demo",
    "run": "run",
    "check": "check",
    "serve": "serve",
    "mcp": "mcp",
    "fit": "fit",
    "evaluate": "evaluate",
    "record": "record",
    "report": "report",
    "calibrate": "fit",
    "doctor": "doctor",
}

# Control characters, which a terminal obeys, direction marks, and lone surrogates, which
# no terminal accepts.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def load_app(verb: str = "") -> Any:
    """Return the command with one verb, or with all of them.

    Loading one verb avoids the imports of the others.
    """
    modules = list(COMMAND_MODULES.values())
    if verb in COMMAND_MODULES:
        modules = [COMMAND_MODULES[verb]]
    for module in modules:
        import_module(f"denoise_core.cli.{module}")
    return import_module("denoise_core.cli.options").app


def main(name: str = "rag-denoise", command: Any = None) -> None:
    """Run the command.

    An expected error or a refused key prints one line and exits with status 2.

    Args:
        name: The program's name in error messages.
        command: Run instead of `load_app`.
    """
    # We show progress ourselves.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        if command is None:
            command = load_app(*sys.argv[1:2])
        command()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        _exit_with_error(
            name,
            f"the command needs {error.name!r}; run: pip install 'rag-denoise[cli]'",
        )
    except Exception as error:
        if is_auth_refusal(error):
            _exit_with_error(name, format_error(error))
        if not isinstance(error, DenoiseError | OSError):
            raise
        _exit_with_error(name, str(error))


def escape_control(text: str) -> str:
    """Return text whose control characters are U+FFFD; tabs and line breaks stay.

    A terminal would obey them, and the text may come from anyone.
    """
    return _CONTROL_CHARACTERS.sub("\ufffd", text.replace("\r\n", "\n"))


def escape_json(json_text: str) -> str:
    """Return JSON that means the same, without a character that a terminal would obey."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def _exit_with_error(name: str, message: str) -> None:
    one_line = " ".join(message.split())
    sys.stderr.write(f"{name}: {escape_control(one_line)}\n")
    sys.exit(2)
