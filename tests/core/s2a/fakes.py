"""Scripted models for S2A: functions of the prompt, that read the delimited text as a model would."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from denoise_core import Message
from denoise_core.testing import FunctionLLM

_DELIMITED = re.compile(r"BEGIN ([a-z ]+ [0-9a-f]{16})\n(.*)\nEND \1", re.DOTALL)
_PIECE = re.compile(r"^(\d+) ", re.MULTILINE)


def document(messages: Sequence[Message]) -> str:
    """What stands between the delimiters of a prompt."""
    asked = next(m.content for m in messages if m.role == "user")
    found = _DELIMITED.search(asked)
    assert found, f"no delimited text in {asked!r}"
    return found[2]


def pieces(messages: Sequence[Message]) -> dict[int, str]:
    """The numbered pieces of a prompt."""
    cut = _PIECE.split(document(messages))[1:]
    return {int(n): text for n, text in zip(cut[::2], cut[1::2])}


def keeps(wanted: Callable[[str], bool], *, seconds: float = 0.0) -> FunctionLLM:
    """Names the pieces that ``wanted`` likes."""

    def reply(messages: Sequence[Message]) -> str:
        return (
            ", ".join(str(n) for n, text in pieces(messages).items() if wanted(text))
            or "NONE"
        )

    return FunctionLLM(reply, seconds=seconds)


def copies(*, seconds: float = 0.0) -> FunctionLLM:
    """Writes the whole text again."""
    return FunctionLLM(lambda m: f"Context: {document(m)}", seconds=seconds)


def says(text: str) -> FunctionLLM:
    return FunctionLLM(lambda _: text)
