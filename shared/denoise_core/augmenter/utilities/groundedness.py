"""The checker of `denoise_core.support` as a utility: what is claimed, held against the evidence by a judge."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.augmenter.utilities.default import default_judge
from denoise_core.augmenter.utility import Measured, Utility
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow
from denoise_core.support import Check
from denoise_core.support.check import checking
from denoise_core.support.copying import copied_from
from denoise_core.support.judges import as_judge
from denoise_core.support.judging import Judge, Judged
from denoise_core.support.result import NOTHING

# Error rates of the judges that ship, as ``make bench ONLY=judges`` measured them. Read with the module and not at
# the first judgement, which may be on an event loop.
_FOUND = json.loads(files("denoise_core.augmenter.utilities").joinpath("judges.json").read_text("utf-8"))
_RATES = {judge: tuple(Measured(*row) for row in rows) for judge, rows in _FOUND.items()}

COPIED = 0.9  # share of a candidate of more than 40 words that may be one unbroken quotation
_FAILS = frozenset(("length", "empty", "question"))  # kinds of saying nothing that another draft can put right


@dataclass(frozen=True, slots=True)
class Groundedness:
    """Passes when the judge finds every claim of the candidate in the evidence and nothing says that it answers
    another question; see `denoise_core.support.check`.

    ``judge`` is any `Judge`; None is `default_judge()`: words alone, which never pass anything.

    An abstention and evidence in another language are unknown. A long candidate of which more than nine tenths are
    one unbroken quotation fails: a copy is grounded, but it is no answer.
    """

    judge: Judge | None = None

    def __post_init__(self) -> None:
        chosen = default_judge() if self.judge is None else as_judge(self.judge)
        object.__setattr__(self, "judge", chosen)

    @classmethod
    def shipped(cls, llm: LLM | None = None) -> Groundedness:
        """With `default_judge`: where none is given, and ``llm`` drafts."""
        return cls(default_judge(llm))

    @property
    def asked(self) -> Judge:
        """The judge that is asked."""
        assert self.judge is not None
        return self.judge

    @property
    def name(self) -> str:
        """What it is called in an answer: by what it judges."""
        return self.asked.id

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The shares of right and wrong answers that a judge of this name passed, set by set; none for others."""
        return _RATES.get(self.name, ())

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        found = yield from checking(memory.question, candidate, memory.evidence, self.asked)
        return replace(self.verdict(found, memory, candidate), claims=found.claims)

    def verdict(self, found: Check, memory: WorkingMemory, candidate: str) -> Verdict:
        """What a finished check says of the candidate: pass, fail or unknown, with a reason for each claim."""
        copied = copied_from(candidate, memory.evidence, COPIED)
        if copied is not None:
            why = "repeats the evidence word for word instead of answering"
            return Verdict("fail", min(found.score, 0.3), (Reason(why, "copy", passage_id=copied),))
        if found.kind == NOTHING:
            return Verdict("unknown", 0.0, (Reason("it makes no statement to judge", "unjudged"),))
        if found.passed:
            return Verdict("pass", found.score)
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


def as_utility(judge: Any = None, llm: LLM | None = None, name: str = "judge") -> Utility:
    """Whatever judges as the loop asks it: a `Utility` as it is, any other judge (`as_judge`) in `Groundedness`,
    None for the default with ``llm``. Raises `InputError` for what judges nothing."""
    if judge is None:
        return Groundedness.shipped(llm)
    if isinstance(judge, Utility) and not isinstance(judge, type):
        return judge
    return Groundedness(judge=as_judge(judge, name))
