"""The text of tokens as they are made, at every token, where the library's own streamers wait for a space."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

_HALF = "\ufffd"  # what a decoder makes of the first bytes of a character


class Pieces:
    """What ``generate`` takes as its ``streamer``; iterated, from another thread, the pieces until `end`.

    A piece is decoded together with the one before it, since the space before a word may depend on that.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens: list[int] = []
        self._before, self._told = 0, 0  # where the last piece begins and ends, in tokens
        self._prompt = True

    def put(self, value: Any) -> None:
        """The prompt, and then the tokens one by one."""
        if self._prompt:
            self._prompt = False
            return
        self._tokens += value.reshape(-1).tolist()
        self._tell(whole=True)

    def end(self) -> None:
        self._tell(whole=False)
        self._queue.put(None)

    def _tell(self, *, whole: bool) -> None:
        old, now = self._decoded(self._told), self._decoded(len(self._tokens))
        if len(now) > len(old) and not (whole and now.endswith(_HALF)):
            self._queue.put(now[len(old) :])
            self._before, self._told = self._told, len(self._tokens)

    def _decoded(self, to: int) -> str:
        return str(self._tokenizer.decode(self._tokens[self._before : to], skip_special_tokens=True))

    def __iter__(self) -> Iterator[str]:
        while (piece := self._queue.get()) is not None:
            yield piece
