"""Replies recorded from a large language model, found again by the prompt that they answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from denoise_core.types import Message, Reply

FOLDER = Path(__file__).parent / "recorded"


def prompt_key(messages: Sequence[Message]) -> str:
    """A prompt, as a recording names it."""
    return hashlib.sha256(json.dumps([[m.role, m.content] for m in messages]).encode()).hexdigest()


def records(name: str) -> list[dict[str, Any]]:
    """The recordings of ``recorded/NAME.jsonl``: each with model, date, the prompts' version, prompt and reply."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()]


class RecordedLLM:
    """A model that says what was recorded for a prompt; ``structured`` as the prompts were. Counts its calls.

    Raises ``KeyError`` for a prompt that nobody asked: its words or the data have changed since.
    """

    def __init__(self, replies: Mapping[str, str], structured: bool = False) -> None:
        self.replies, self.structured, self.calls = replies, structured, 0

    @classmethod
    def of(cls, name: str) -> Self:
        return cls({r["prompt"]: r["reply"] for r in records(name)})

    def complete(self, messages: Sequence[Message]) -> Reply:
        self.calls += 1
        return Reply(self.replies[self.key(messages)])

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self.complete(messages)

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    key = staticmethod(prompt_key)
