"""The settings of S2A: the variants, and in one value what most users leave alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from denoise_core.errors import InputError
from denoise_core.running.caches.cache import Cache
from denoise_core.s2a.alignment.gate import FidelityGate
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_core.s2a.skip import Skip

Variant = Literal["select", "remove", "auto", "default", "single", "keep_original", "not_instructed", "relevance"]
OnError = Literal["keep", "drop", "raise"]

EXTRACTIVE = ("select", "remove", "auto")


class Rule(Protocol):
    """What keeps some of scored texts, best first, such as END's ``Tokens(2000)``: a mask, and why the "
    "rest goes."""

    def choose(self, scores: Any, texts: Any) -> Any: ...

    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Options:
    """How passages are put to the model, and what is done with what it writes.

    ``joint`` asks about several passages in one call instead of each on its own; None does so for the extractive
    variants with passages of at most ``short`` characters. ``window`` is how many characters of passages one call
    may hold: longer passages are split between pieces, joint calls are filled from it. ``show`` names what of a
    passage the model sees besides its text and its header: ``"title"`` is ``metadata["title"]``, and so on for
    any key.
    ``clear`` clears the question first, in one call that sees no passage, where it holds anything to clear.
    ``context`` keeps with a piece what it cannot be read without: a table row's header, a list item's stem, a
    pronoun's sentence before; without it also goes the white space behind the last piece. ``gate`` checks what
    the rewriting variants write; None trusts the model. ``cache`` and ``skip`` save calls. ``structured`` asks for
    JSON by a schema when the LLM is a `StructuredLLM`. ``language`` decides abbreviations when sentences are cut,
    as in `chunk.sentences`.

    Raises `InputError` for ``window < 1``, ``short < 1`` and a ``show`` that is a single string.
    """

    prompts: Prompts = field(default_factory=Prompts)
    joint: bool | None = None
    window: int = 24_000
    short: int = 4_000
    show: tuple[str, ...] = ()
    clear: bool = True
    context: bool = True
    gate: FidelityGate | None = field(default_factory=FidelityGate)
    cache: Cache | None = None
    skip: Skip = field(default_factory=Skip)
    structured: bool = True
    language: str = "en"

    def __post_init__(self) -> None:
        for name in ("window", "short"):
            if getattr(self, name) < 1:
                raise InputError(f"Options({name}={getattr(self, name)}): expected 1 character or more")
        if isinstance(self.show, str):
            raise InputError(f"Options(show={self.show!r}): expected a tuple of metadata keys, such as ('title',)")

    def longest_joint(self, variant: Variant) -> int:
        """Up to how many characters a passage shares a call; 0 when each has one of its own."""
        if self.joint is None:
            return min(self.short, self.window) if variant in EXTRACTIVE else 0
        return self.window if self.joint else 0

    def step_1(self, variant: Variant, *, ranked: bool = False) -> Prompt:
        """What the variant asks for first; ``keep_original`` and ``not_instructed`` differ only in step 2."""
        name = "rank" if ranked else "default" if variant in ("keep_original", "not_instructed") else variant
        prompt: Prompt = getattr(self.prompts, name)
        return prompt

    def message(self, variant: Variant) -> Prompt:
        """The same about a person's message, in which facts and request stand together."""
        plain = variant in ("default", "keep_original", "not_instructed")
        prompt: Prompt = getattr(self.prompts, "message" if plain else f"message_{variant}")
        return prompt

    def step_2(self, variant: Variant) -> Prompt:
        """How the answer is asked for (paper, section 2.3): with the debiasing instruction or without."""
        if variant == "keep_original":
            return self.prompts.answer_keeping
        if variant in ("not_instructed", "relevance"):
            return self.prompts.answer
        return self.prompts.answer_fairly
