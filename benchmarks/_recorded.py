"""Replies recorded from a large language model, found again by the prompt that they answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from denoise_core.types import Message, Reply

FOLDER = Path(__file__).parent / "recorded"


def key(messages: Sequence[Message]) -> str:
    """A prompt, as a recording names it."""
    told = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=False)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class Recorded:
    """A model that says what was recorded for a prompt. Counts its calls.

    Raises ``KeyError`` for a prompt that nobody asked.
    """

    def __init__(self, name: str) -> None:
        lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
        self.replies = {r["key"]: r["reply"] for r in map(json.loads, lines)}
        self.calls = 0

    def complete(self, messages: Sequence[Message]) -> Reply:
        self.calls += 1
        found = self.replies.get(key(messages))
        if found is None:
            raise KeyError("no reply was recorded for this prompt; its words or the data have changed")
        return Reply(found)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self.complete(messages)
