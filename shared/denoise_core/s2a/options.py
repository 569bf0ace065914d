"""Settings of S2A: the variants, and the `Options` that most users keep at their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from denoise_core.errors import InputError
from denoise_core.runtime.caches import Cache
from denoise_core.s2a.prompts import Prompts

Variant = Literal[
    "select",
    "default",
    "single",
    "keep_original",
    "not_instructed",
    "relevance",
]
OnError = Literal["keep", "drop", "raise"]
OnIrrelevant = Literal["keep", "drop"]
ShownText = Literal["source", "written"]


class PieceRule(Protocol):
    """Chooses among scored texts, best first, such as END's ``TokenLimit(2000)``."""

    def choose(self, scores: Any, texts: Any) -> Any:
        """A boolean mask over ``texts``: True is kept."""
        ...

    def reason(self) -> str:
        """Why a text outside the mask is dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How passages are put to the model, and what is done with what it writes.

    Attributes:
        prompts: What the model is asked.
        join_passages: Whether one call asks about several passages. None does so in
            ``select`` for passages of at most ``max_joint_characters``; the
            rewriting variants always ask about one.
        max_characters: Characters of one call; a longer passage is split between
            pieces.
        max_pieces: Numbered pieces of one call.
        max_joint_characters: Longest passage that shares a call by default.
        neutralize_question: Whether a question of more than one clause is cleared
            first, in one call that sees no passage.
        keep_context: Whether a piece brings what it cannot be read without: a table
            row its header, a list item its lead, a pronoun the sentence before.
        shown_text: What the rewriting variants give: ``"source"``, the source sentences
            that cover what was written, or ``"written"``, the model's own text as in
            the paper, marked as rewritten; the passage itself if nothing covers that.
        cache: Saves calls.
        language: ISO 639-1 code, which decides abbreviations when sentences are cut.

    Raises:
        InputError: For a number below 1, and an unknown ``shown_text``.
    """

    prompts: Prompts = field(default_factory=Prompts)
    join_passages: bool | None = None
    max_characters: int = 24_000
    max_pieces: int = 60
    max_joint_characters: int = 4_000
    neutralize_question: bool = True
    keep_context: bool = True
    shown_text: ShownText = "source"
    cache: Cache | None = None
    language: str = "en"

    def __post_init__(self) -> None:
        for name in ("max_characters", "max_joint_characters", "max_pieces"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"Options({name}={value}): expected 1 or more")
        known_choices = get_args(ShownText)
        check_choice("shown_text", self.shown_text, known_choices)


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise `InputError` for a value that is none of ``allowed``."""
    if value not in allowed:
        quoted_choices = map(repr, allowed)
        choice_list = ", ".join(quoted_choices)
        raise InputError(f"{name}={value!r}: expected one of {choice_list}")
