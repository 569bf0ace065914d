"""Settings of S2A: the variants, and the `Options` that most users keep at their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.runtime.caches import Cache
from denoise_core.s2a.prompts import Prompts

Variant = Literal[
    "select",
    "remove",
    "auto",
    "default",
    "single",
    "keep_original",
    "not_instructed",
    "relevance",
]
OnError = Literal["keep", "drop", "raise"]
ShownText = Literal["source", "written"]

EXTRACTIVE = ("select", "remove", "auto")


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

    ``join_passages`` asks about several passages in one call instead of each on its own; None does so for the
    extractive
    variants with passages of at most ``max_joint_characters`` characters, and the rewriting ones always ask
    about one. One call
    holds at most ``max_characters`` characters and ``max_pieces`` numbered pieces: longer passages are split
    between pieces.
    ``metadata`` names what of a passage the model sees besides its text and its header: ``"title"`` is
    ``metadata["title"]``, and so on for any key.

    ``neutralize_question`` clears the question first, in one call that sees no passage, where it has more than
    one clause.
    ``keep_context`` keeps with a piece what it cannot be read without: a table row's header, a list item's stem, a
    pronoun's sentence before; without it also goes the white space behind the last piece.

    ``shown_text`` is what the rewriting variants give: ``"source"``, the source sentences that cover what was
    written,
    or ``"written"``, the model's own text as in the paper, marked ``rewritten``, with the checker's word on each
    sentence. ``check_sentences`` adds the checker's verdict to the source sentences, too.

    ``scorer`` says whether a NONE over everything is to be confirmed: a passage that it finds at
    ``recheck_threshold`` or above is looked at again, once. None is the default that ships, where its extra is
    installed.

    ``cache`` saves calls. ``use_json_schema`` asks for JSON by a schema where the LLM can be held to one.
    ``language`` decides abbreviations when sentences are cut, as in `chunk.sentences`.

    Raises `InputError` for a number below 1, an unknown ``shown_text`` and ``metadata`` that is a single string.
    """

    prompts: Prompts = field(default_factory=Prompts)
    join_passages: bool | None = None
    max_characters: int = 24_000
    max_pieces: int = 60
    max_joint_characters: int = 4_000
    metadata: tuple[str, ...] = ()
    neutralize_question: bool = True
    keep_context: bool = True
    shown_text: ShownText = "source"
    check_sentences: bool = False
    scorer: Scorer | None = None
    recheck_threshold: float | None = None
    cache: Cache | None = None
    use_json_schema: bool = True
    language: str = "en"

    def __post_init__(self) -> None:
        for name in ("max_characters", "max_joint_characters", "max_pieces"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"Options({name}={getattr(self, name)}): expected 1 or more"
                )
        if self.shown_text not in get_args(ShownText):
            raise InputError(
                f"Options(shown_text={self.shown_text!r}): expected 'source' or 'written'; metadata that the model is to see "  # noqa: E501
                "is named by Options(metadata=('title',))"
            )
        if isinstance(self.metadata, str):
            raise InputError(
                f"Options(metadata={self.metadata!r}): expected a tuple of keys, such as ('title',)"
            )
        if (
            self.scorer is not None
            and self.recheck_threshold is None
            and not hasattr(self.scorer, "scale")
        ):
            raise InputError(
                f"Options(scorer={type(self.scorer).__name__}): say with recheck_threshold= from which of its scores on a "  # noqa: E501
                "passage is clearly relevant"
            )


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raises `InputError` for a value that is none of ``allowed``."""
    if value not in allowed:
        raise InputError(
            f"{name}={value!r}: expected one of {', '.join(map(repr, allowed))}"
        )
