"""Bounds that hold whatever the policy does, and what is sent when nothing passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from denoise_core.errors import InputError


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """``attempts``: drafts at most. ``patience``: drafts in a row that may bring no better score.
    ``failures``: failed effects that end the loop. ``steps``: actions at most. ``call_seconds``: time for
    one call of a model or retriever, None for none. ``unverified``: when nothing passed, ``"send"`` the
    best attempt marked unverified, ``"abstain"``, or ``"refuse"``.

    Raises `InputError` for values that make no loop.
    """

    attempts: int = 3
    patience: int = 2
    failures: int = 2
    steps: int = 16
    call_seconds: float | None = None
    unverified: Literal["send", "abstain", "refuse"] = "send"

    def __post_init__(self) -> None:
        for name in ("attempts", "patience", "failures", "steps"):
            if getattr(self, name) < 1:
                raise InputError(f"LoopLimits({name}={getattr(self, name)}): expected 1 or more")
        if self.call_seconds is not None and not self.call_seconds > 0:
            raise InputError(
                f"LoopLimits(call_seconds={self.call_seconds}): expected more than 0, or None for no limit"
            )
        if self.unverified not in ("send", "abstain", "refuse"):
            raise InputError(f"LoopLimits(unverified={self.unverified!r}): expected 'send', 'abstain' or 'refuse'")
