"""Bounds that hold whatever the policy does, and what is sent when nothing passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from denoise_core.errors import InputError


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """``attempts``: drafts at most. ``patience``: drafts in a row that may bring no better score.
    ``failures``: drafts or whole searches that may fail before the loop ends. ``steps``: actions at most.
    ``call_seconds``: time for one call of a model, judge or retriever, None for none. ``evidence_tokens``:
    evidence in a prompt at most, best first, by an estimate of four characters a token. ``repair``: correct
    or cut what does not hold before asking again. ``rerun``: ask again also a drafter that cannot be repeated
    without an effect outside. ``unsupported``: when nothing passed, ``"send"`` the best attempt with its outcome,
    or ``"abstain"``.

    Raises `InputError` for values that make no loop.
    """

    attempts: int = 3
    patience: int = 2
    failures: int = 2
    steps: int = 16
    call_seconds: float | None = None
    evidence_tokens: int = 12_000
    repair: bool = True
    rerun: bool = False
    unsupported: Literal["send", "abstain"] = "send"

    def __post_init__(self) -> None:
        for name in ("attempts", "patience", "failures", "steps", "evidence_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"LoopLimits({name}={getattr(self, name)}): expected 1 or more")
        if self.call_seconds is not None and not self.call_seconds > 0:
            raise InputError(
                f"LoopLimits(call_seconds={self.call_seconds}): expected more than 0, or None for no limit"
            )
        if self.unsupported not in ("send", "abstain"):
            raise InputError(f"LoopLimits(unsupported={self.unsupported!r}): expected 'send' or 'abstain'")
