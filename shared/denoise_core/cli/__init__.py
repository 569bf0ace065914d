"""The command ``rag-denoise``."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

from denoise_core.errors import DenoiseError, format_error, is_auth_refusal

COMMAND_MODULES = {
    verb: verb
    for verb in ("demo", "run", "check", "serve", "mcp", "fit", "evaluate", "record")
}
COMMAND_MODULES["calibrate"] = "fit"

# Control characters (a terminal acts on them), marks that turn the direction of what follows, and half characters,
# which no terminal takes.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def load_app(verb: str = "") -> Any:
    """The command with one verb, so that no other is loaded, or with all of them."""
    for module in (
        [COMMAND_MODULES[verb]] if verb in COMMAND_MODULES else COMMAND_MODULES.values()
    ):
        import_module(f"denoise_core.cli.{module}")
    return import_module("denoise_core.cli.options").app


def main(name: str = "rag-denoise", command: Any = None) -> None:
    """Run ``command``, `load_app` unless given, under a name. An error on purpose, or a refused key, ends in one line
    and exit status 2."""
    os.environ.setdefault(
        "HF_HUB_DISABLE_PROGRESS_BARS", "1"
    )  # our own progress is what is shown
    try:
        (command or load_app(sys.argv[1] if sys.argv[1:] else ""))()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "jinja2"):
            raise
        _end(
            name,
            f"the command needs {error.name!r}; run: pip install 'rag-denoise[cli]'",
        )
    except Exception as error:
        if not isinstance(error, DenoiseError | OSError) and not is_auth_refusal(error):
            raise
        _end(name, format_error(error) if is_auth_refusal(error) else str(error))


def escape_control(text: str) -> str:
    """Text of others as a terminal shows it and never obeys it: every character it would act on is U+FFFD; tabs
    and line breaks stay."""
    return _ACTING.sub("\ufffd", text.replace("\r\n", "\n"))


def _end(name: str, message: str) -> None:
    sys.stderr.write(f"{name}: {escape_control(' '.join(message.split()))}\n")
    sys.exit(2)
