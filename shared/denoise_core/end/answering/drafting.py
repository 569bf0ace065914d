"""One pass as a drafter of a verification loop: each draft goes on from what has been read for the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from denoise_core.end.answering.one_pass import OnePassAnswers, Read
from denoise_core.running.offload import offload
from denoise_core.types import Passage, Reply


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
        if before is not None and before.query == request.question and texts[: len(had)] == had:
            self._read = self.answers.again(before, texts[len(had) :], request.feedback)
        else:
            self._read = self.answers.answer(request.question, texts, request.feedback)
        self._texts = texts
        return self._read.reply

    async def adraft(self, request: Request) -> Reply:
        return await offload(self.draft, request)
