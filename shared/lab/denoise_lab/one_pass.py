"""Answers in one pass under study: how far they are from the exact reading, and drafts of the loop made so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from denoise_core.end.answering import OnePassAnswers, Read
from denoise_core.running.offload import offload
from denoise_core.types import Passage, Reply


@dataclass(frozen=True, slots=True)
class Apart:
    """One pass against the exact reading of the same prompt: the first token's distributions.

    ``divergence`` is the Kullback-Leibler divergence of the one-pass distribution from the exact one, in nats;
    ``same`` whether both have the same most likely token; ``tokens`` is the prompt's length.
    """

    divergence: float
    same: bool
    tokens: int


def apart(answers: OnePassAnswers, read: Read) -> Apart:
    """How far what ``answers`` has read is from the exact reading of the same tokens."""
    model: Any = answers.llm.model
    with torch.inference_mode():
        ids = torch.tensor([read.ids], device=model.device)
        exact = torch.log_softmax(model(input_ids=ids).logits[0, -1].float(), -1)
        at = torch.tensor([[len(read.ids) - 1]], device=model.device)
        out = model(input_ids=ids[:, -1:], position_ids=at, past_key_values=read.page.past())
        mine = torch.log_softmax(out.logits[0, -1].float(), -1)
        divergence = float((exact.exp() * (exact - mine)).sum())
    return Apart(max(0.0, divergence), int(exact.argmax()) == int(mine.argmax()), len(read.ids))


class Request(Protocol):
    """What a loop asks for (`denoise_core.augmenter.drafting.DraftRequest`)."""

    @property
    def question(self) -> str: ...

    @property
    def evidence(self) -> Sequence[Passage]: ...

    @property
    def feedback(self) -> str: ...


class OnePassDrafter:
    """Drafts from the evidence of a request: ``augmenter.answer(question, drafter=OnePassDrafter(answers))``.

    Evidence that follows what was read before, such as one re-admitted chunk, is appended; other evidence is read
    from the start. Drafts of one drafter belong to one question at a time: give each run a drafter of its own.
    Raises `InputError` where `OnePassAnswers.off` has a reason, and for a request without evidence.
    """

    repeatable = True

    def __init__(self, answers: OnePassAnswers) -> None:
        self.answers = answers
        self._read: Read | None = None
        self._texts: tuple[str, ...] = ()

    def draft(self, request: Request) -> Reply:
        texts = tuple(p.headed for p in request.evidence)
        before, had = self._read, self._texts
        if before is None or before.query != request.question or texts[: len(had)] != had:
            before, had = None, ()
        self._read = self.answers.answer(request.question, texts[len(had) :], request.feedback, before=before)
        self._texts = texts
        return self._read.reply

    async def adraft(self, request: Request) -> Reply:
        return await offload(self.draft, request)
