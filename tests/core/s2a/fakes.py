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
    model_calls = next(
        sent_messages.content
        for sent_messages in messages
        if sent_messages.role == "user"
    )
    actual_result = _DELIMITED.search(model_calls)
    assert actual_result, f"no delimited text in {model_calls!r}"
    return actual_result[2]


def pieces(messages: Sequence[Message]) -> dict[int, str]:
    """The numbered pieces of a prompt."""
    cut_pieces = _PIECE.split(document(messages))[1:]
    return {
        int(position): text for position, text in zip(cut_pieces[::2], cut_pieces[1::2])
    }


def keeps(
    expected_value: Callable[[str], bool], *, seconds: float = 0.0
) -> FunctionLLM:
    """Names the pieces that ``expected_value`` likes."""

    def reply(messages: Sequence[Message]) -> str:
        return (
            ", ".join(
                str(position)
                for position, text in pieces(messages).items()
                if expected_value(text)
            )
            or "NONE"
        )

    return FunctionLLM(reply, seconds=seconds)


def copies(*, seconds: float = 0.0) -> FunctionLLM:
    """Writes the whole text again."""
    return FunctionLLM(
        lambda sent_messages: f"Context: {document(sent_messages)}", seconds=seconds
    )


def says(text: str) -> FunctionLLM:
    return FunctionLLM(lambda _: text)
