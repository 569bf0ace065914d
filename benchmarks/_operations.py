"""Bounds from operations: the multiplications that each way asks for, over those of one full forward pass.

Linear maps, and attention counted causally. The state of the last token alone is needed of the probe's last block;
of its other tokens only keys and values are.
"""

from __future__ import annotations

from dataclasses import dataclass

from _end_paths import INSTRUCTION, QUERY, Shape


@dataclass(frozen=True)
class Operations:
    """Of a context of ``tokens`` in ``chunks``, of which ``keep`` are answered from."""

    shape: Shape
    tokens: int
    chunks: int = 10
    keep: int = 3

    @property
    def exact_cold(self) -> float:
        return (self._score() + self._answer_whole()) / self._full()

    @property
    def exact_warm(self) -> float:
        return (self._score_again() + self._answer_whole()) / self._full()

    @property
    def one_pass_cold(self) -> float:
        return (self._score() + self._answer_on()) / self._full()

    @property
    def one_pass_warm(self) -> float:
        return (self._score_again() + self._answer_on()) / self._full()

    @property
    def again(self) -> float:
        """One chunk more behind what was read, then the question."""
        kept, size = self._kept(), self._size()
        below, above = self.shape.layer - 1, self.shape.blocks - self.shape.layer + 1
        return (below * self.block(QUERY, kept + size) + above * self.block(size + QUERY, kept)) / self._full()

    def block(self, new: int, past: int) -> float:
        """One block over ``new`` tokens behind ``past`` ones."""
        s = self.shape
        each = 2 * s.width * s.width + 3 * s.width * s.inner
        seen = new * past + new * (new + 1) / 2
        return new * each + self.keys(new) + 2 * seen * s.width

    def keys(self, new: int) -> float:
        """Keys and values alone."""
        s = self.shape
        return new * 2 * s.width * (s.width // s.heads * s.kv_heads)

    def _size(self) -> int:
        return (self.tokens - INSTRUCTION - QUERY) // self.chunks

    def _kept(self) -> int:
        return INSTRUCTION + self.keep * self._size()

    def _full(self) -> float:
        return self.shape.blocks * self.block(self.tokens, 0)

    def _score(self) -> float:
        prompt = INSTRUCTION + self._size() + QUERY
        return self.chunks * ((self.shape.layer - 1) * self.block(prompt, 0) + self.keys(prompt))

    def _score_again(self) -> float:
        past = INSTRUCTION + self._size()
        return self.chunks * ((self.shape.layer - 1) * self.block(QUERY, past) + self.keys(QUERY))

    def _answer_whole(self) -> float:
        return self.shape.blocks * self.block(self._kept() + QUERY, 0)

    def _answer_on(self) -> float:
        below, above = self.shape.layer - 1, self.shape.blocks - self.shape.layer + 1
        return below * self.block(QUERY, self._kept()) + above * self.block(self._kept() + QUERY, 0)
