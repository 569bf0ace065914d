"""The checker of `denoise_core.support` as a utility: what is claimed, held against the evidence by a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.measured import measured
from denoise_core.augmenter.utility import Measured
from denoise_core.errors import InputError, MissingExtra
from denoise_core.running.effects import Flow
from denoise_core.running.flow import run
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.recipes import Travels
from denoise_core.support import Check, Reader
from denoise_core.support.check import Shipped, checking
from denoise_core.support.copying import copied_from
from denoise_core.support.judging import Judge, Judged
from denoise_core.support.question import Fitting
from denoise_core.support.result import NOTHING
from denoise_core.types import Passage

_FAILS = frozenset(("length", "empty", "question"))  # kinds of saying nothing that another draft can put right


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when the judge finds every claim of the candidate in the evidence and nothing says that it answers
    another question; see `denoise_core.support.check`.

    ``judge`` is any `Judge`. Without one code says what differs, and ``reader``, a reader of real text, whether a
    short answer stands there and answers; `embedded` has the one that ships. Words alone never pass anything.

    An abstention and evidence in another language are unknown. ``copy_cap``: the share of a candidate of more than
    40 words that may be one unbroken quotation; a copy is grounded, but it is no answer. Raises `InputError` for a
    cap outside [0, 1].
    """

    copy_cap: float = 0.9
    reader: Reader | None = None
    judge: Judge | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.copy_cap <= 1.0:
            raise InputError(f"Groundedness(copy_cap={self.copy_cap}): expected 0 to 1")
        if self.reader is not None and not isinstance(self.reader, Reader):
            raise InputError(
                f"Groundedness(reader={type(self.reader).__name__}): expected an object with "
                "fits(query, candidates, passages), such as denoise_core.embedded.span_reader()"
            )

    @classmethod
    def shipped(cls) -> Groundedness:
        """With the reader that ships where the extra ``embedded`` is installed, loaded when it is first asked;
        with words alone where it is not, which is logged once."""
        return cls(reader=ShippedReader())

    @classmethod
    def embedded(cls, *, copy_cap: float = 0.9) -> Groundedness:
        """With the reader that ships, loaded here, once a process. Raises `MissingExtra` without the extra
        ``embedded``."""
        from denoise_core.embedded import span_reader

        return cls(copy_cap, span_reader())

    @property
    def asked(self) -> Judge:
        """The judge that is asked."""
        return self.judge or Shipped(self.reader)

    @property
    def name(self) -> str:
        """What it is called in an answer: by what it judges."""
        return self.asked.id

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Its error rates as shipped."""
        return measured(self.name)

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        found = yield from checking(memory.question, candidate, memory.evidence, self.asked)
        return self.verdict(found, memory, candidate)

    def verdict_of(self, memory: WorkingMemory, candidate: str) -> Verdict:
        """The verdict on a candidate, at once and outside a loop."""
        return run(self.assess(memory, candidate))[0]

    def check(self, memory: WorkingMemory, candidate: str) -> Check:
        """What the checker says, with places."""
        return run(checking(memory.question, candidate, memory.evidence, self.asked))[0]

    def verdict(self, found: Check, memory: WorkingMemory, candidate: str) -> Verdict:
        """What a finished check says of the candidate: pass, fail or unknown, with a reason for each claim."""
        copied = copied_from(candidate, memory.evidence, self.copy_cap)
        if copied is not None:
            why = "repeats the evidence word for word instead of answering"
            return Verdict("fail", min(found.score, 0.3), (Reason(why, "copy", passage_id=copied),))
        if found.passed:
            said = (Reason(found.reason, NOTHING),) if found.kind == NOTHING else ()
            return Verdict("pass", found.score, said)
        reasons = tuple(_reason(c) for c in found.claims if c.supported is False)
        if found.kind == "off_question" or not reasons:
            reasons += (Reason(found.reason, found.kind, "" if found.claims else candidate),)
        failed = found.supported is False or found.answers is False or found.kind in _FAILS
        return Verdict("fail" if failed else "unknown", found.score, reasons)


def _reason(claim: Judged) -> Reason:
    where = claim.quotes[0].span.passage_id if claim.quotes else None
    missing = tuple(d.said for d in claim.differs)
    why = claim.why or "the evidence does not say this"
    return Reason(why, claim.kind, claim.text.strip(), where, missing, (claim.start, claim.end))


class ShippedReader(Travels):
    """The reader of the extra ``embedded``, loaded at the first call; where it is not installed nothing fits and
    nothing is refused, and that is said once."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._missing = False

    def fits(self, query: str, candidates: Sequence[str], passages: Sequence[Passage]) -> Sequence[Fitting]:
        if self._reader is None and not self._missing:
            from denoise_core.embedded import span_reader

            try:
                self._reader = span_reader()
            except MissingExtra as error:
                self._missing = True
                fell_back("judge", error, "words alone judge: they find what differs and support nothing")
        return [] if self._reader is None else self._reader.fits(query, candidates, passages)
