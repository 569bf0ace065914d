"""The settings of S2A that most users leave alone, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from denoise_core.errors import InputError
from denoise_core.s2a.prompts import Prompts

Extractive = Literal["select", "remove", "auto"]
Rewriting = Literal["default", "relevance"]
Variant = Literal["default", "relevance", "select", "remove", "auto"]
OnUnparsable = Literal["keep", "drop", "raise"]

EXTRACTIVE = ("select", "remove", "auto")
REWRITING = ("default", "relevance")


@dataclass(frozen=True, slots=True)
class Options:
    """How passages are put to the model.

    ``joint`` asks about several passages in one call instead of each on its own. ``window`` is how many
    characters of passages one call may hold: longer passages are split between pieces, joint calls are
    filled up to it. ``show`` names what of a passage the model sees besides its text: ``"title"`` is
    ``metadata["title"]``, and so on for any key.

    Raises `InputError` for ``window < 1``.
    """

    prompts: Prompts = field(default_factory=Prompts)
    joint: bool = False
    window: int = 24_000
    show: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"Options(window={self.window}): expected 1 character or more")
        if isinstance(self.show, str):
            raise InputError(f"Options(show={self.show!r}): expected a tuple of metadata keys, such as ('title',)")
