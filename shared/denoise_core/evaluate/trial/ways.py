"""The ways that are held against each other: everything, the first few, rankings, denoisers of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from denoise_core.embedded.default import encoder
from denoise_core.embedded.readings import Readings
from denoise_core.errors import InputError
from denoise_core.evaluate.trial.answering import Answerer
from denoise_core.evaluate.trial.setting import denoiser_of
from denoise_core.protocols import LLM, Denoiser, expect_denoiser

EVERYTHING = "everything"
SAME = "same"  # as many tokens as the default keeps on average


@dataclass(frozen=True, slots=True)
class Way:
    """``setting`` is the way as plain JSON (`trial.setting`), None for a denoiser that only Python knows.

    ``{"tokens": "same"}`` stands for as many tokens as the default keeps on average over these questions.
    ``answerer`` answers in the place of the evaluation's, for a way that is more than what is kept.
    """

    name: str
    setting: Mapping[str, Any] | None = None
    denoiser: Denoiser | None = None
    answerer: Answerer | None = None

    def ready(self, budget: int | None, llm: LLM | None = None) -> Way:
        """The way with its denoiser made; ``budget`` is in tokens. Raises `InputError` as `denoiser_of`."""
        if self.denoiser is not None:
            return self
        assert self.setting is not None
        own = dict(self.setting)
        if own.get("tokens") == SAME:
            if budget is None:
                raise InputError(f"way {self.name!r}: 'same' tokens as the default, which is not among the ways")
            own["tokens"] = budget
        return replace(self, setting=own, denoiser=denoiser_of(own, llm=llm))


def standard_ways() -> tuple[Way, ...]:
    """What is compared unless said otherwise; all run offline."""
    return (
        Way(EVERYTHING, {"kind": "everything"}),
        Way("default", {"kind": "default", "keep": "auto"}),
        Way("first", {"kind": "first", "tokens": SAME}),
        Way("BM25", {"kind": "bm25", "tokens": SAME}),
        Way("cosine", {"kind": "cosine", "tokens": SAME}),
    )


def as_ways(given: Mapping[str, Way | Denoiser | Mapping[str, Any]]) -> tuple[Way, ...]:
    """Ways of what a user names: a `Way`, a denoiser, or a setting."""
    out = []
    for name, way in given.items():
        if isinstance(way, Way):
            out.append(replace(way, name=name))
        elif isinstance(way, Mapping):
            out.append(Way(name, way))
        else:
            out.append(Way(name, None, expect_denoiser(way, f"ways[{name!r}]")))
    return tuple(out)


@contextmanager
def nothing_read() -> Iterator[None]:
    """For the time within, the embedded encoder has read nothing: what a question costs the first time."""
    own = encoder()
    before = own.readings
    own.readings = Readings(before.model)
    try:
        yield
    finally:
        own.readings = before
