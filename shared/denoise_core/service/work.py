"""What is computed for a batch of requests, on a thread of the service's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.protocols import Scorer
from denoise_core.result import DenoiseResult
from denoise_core.running.fallbacks import fell_back
from denoise_core.service.settings import Service
from denoise_core.support import Check, Reader, check
from denoise_core.types import Passage, well_formed


@dataclass(frozen=True, slots=True)
class ToScore:
    query: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToDenoise:
    query: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class ToCheck:
    question: str
    answer: str
    passages: tuple[Passage, ...]


class Worker:
    """Answers a batch: each request its result, or the exception that is its own."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def __call__(self, batch: Sequence[Any]) -> list[Any]:
        together = [a for a in batch if isinstance(a, ToDenoise)]
        done = dict(zip(map(id, together), self._denoised(together), strict=True))
        return [done[id(a)] if id(a) in done else _tried(self._one, a) for a in batch]

    def _denoised(self, asked: Sequence[ToDenoise]) -> list[Any]:
        denoiser = self.service.denoiser
        if isinstance(denoiser, ENDDenoiser) and len(asked) > 1:
            try:
                return list(denoiser.denoise_many([(a.query, a.passages) for a in asked]))
            except Exception as error:  # one of them spoils it for all: each by itself says which, and why
                fell_back("requests read together", error, "each was denoised by itself")
        return [_tried(self._one, a) for a in asked]

    def _one(self, asked: Any) -> DenoiseResult | Check | list[float]:
        if isinstance(asked, ToDenoise):
            return self.service.denoiser.denoise(asked.query, asked.passages)
        if isinstance(asked, ToScore):
            scorer = self.service.scorer
            assert isinstance(scorer, Scorer)  # asked before it is queued
            texts = [well_formed(t) for t in asked.texts]
            return np.asarray(scorer.score(asked.query, texts), dtype=np.float64).tolist() if texts else []
        reader = self.service.reader
        if reader is not None and not isinstance(reader, Reader):
            reader = reader()
        return check(asked.question, asked.answer, asked.passages, reader)


def _tried(call: Callable[[Any], Any], asked: Any) -> Any:
    try:
        return call(asked)
    except Exception as error:  # this request's own; the others of the batch go on
        return error
