"""The settings of S2A: the variants, and in one value what most users leave alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from denoise_core.errors import InputError
from denoise_core.running.cache import Cache
from denoise_core.s2a.alignment.gate import FidelityGate
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_core.s2a.skip import Skip

Variant = Literal["default", "single", "keep_original", "not_instructed", "relevance", "select", "remove", "auto"]
OnUnparsable = Literal["keep", "drop", "raise"]

EXTRACTIVE = ("select", "remove", "auto")


@dataclass(frozen=True, slots=True)
class Options:
    """How passages are put to the model, and what is done with what it writes.

    ``joint`` asks about several passages in one call instead of each on its own. ``window`` is how many
    characters of passages one call may hold: longer passages are split between pieces, joint calls are
    filled up to it. ``show`` names what of a passage the model sees besides its text: ``"title"`` is
    ``metadata["title"]``, and so on for any key. ``gate`` checks what the rewriting variants write; None
    trusts the model. ``cache`` and ``skip`` save calls. ``structured`` asks for JSON by a schema when the LLM
    is a `StructuredLLM`.

    Raises `InputError` for ``window < 1`` and a ``show`` that is a single string.
    """

    prompts: Prompts = field(default_factory=Prompts)
    joint: bool = False
    window: int = 24_000
    show: tuple[str, ...] = ()
    gate: FidelityGate | None = field(default_factory=FidelityGate)
    cache: Cache | None = None
    skip: Skip = field(default_factory=Skip)
    structured: bool = True

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"Options(window={self.window}): expected 1 character or more")
        if isinstance(self.show, str):
            raise InputError(f"Options(show={self.show!r}): expected a tuple of metadata keys, such as ('title',)")

    def step_1(self, variant: Variant) -> Prompt:
        """What the variant asks for first; ``keep_original`` and ``not_instructed`` differ only in step 2."""
        name = "default" if variant in ("keep_original", "not_instructed") else variant
        prompt: Prompt = getattr(self.prompts, name)
        return prompt

    def step_2(self, variant: Variant) -> Prompt:
        """How the answer is asked for (paper, section 2.3): with the debiasing instruction or without."""
        if variant == "keep_original":
            return self.prompts.answer_keeping
        if variant in ("not_instructed", "relevance"):
            return self.prompts.answer
        return self.prompts.answer_fairly
