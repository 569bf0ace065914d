"""The two gates as functions of two texts, for anyone to try."""

from __future__ import annotations

from dataclasses import dataclass

from denoise_core.s2a.alignment import gate as gates
from denoise_core.s2a.alignment.gate import FidelityGate, GatePolicy
from denoise_core.s2a.alignment.question import why_not_same
from denoise_core.s2a.companions import companions
from denoise_core.s2a.result import Sentence
from denoise_core.s2a.units import units
from denoise_core.text.chunk import extract
from denoise_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What the policy shows of a rewrite, and a finding for each of its sentences.

    ``spans`` are the characters of the source (id ``"source"``) that ``shown`` stands for; where ``verbatim``, it
    is exactly those. Under ``"reject"`` the source itself is shown when a sentence was added.
    """

    shown: str
    findings: tuple[Sentence, ...]
    spans: tuple[Span, ...]
    verbatim: bool

    @property
    def faithful(self) -> bool:
        """Whether the source bears out every sentence."""
        return all(f.kind != "added" for f in self.findings)


def fidelity(
    source: str,
    written: str,
    *,
    policy: GatePolicy = "snap",
    max_new_words: float = 0.5,
    question: str = "",
    language: str = "en",
) -> Fidelity:
    """What of ``written`` the ``source`` bears out, as the fidelity gate sees it.

    Sentences that only ask ``question`` again are left out. Raises `InputError` for an unknown policy.
    """
    gate = FidelityGate(policy, max_new_words)
    passage = Passage(source, "source")
    pieces = units(passage, language=language)
    found = gates.check(written, passage, pieces, gate, question=question, language=language)
    if found.rejected:
        return Fidelity(source, found.sentences, (), True)
    if found.text is None or not found.verbatim:
        return Fidelity(found.text or "", found.sentences, found.spans, not found.text)
    touched = [p for p in pieces if any(s.start < p.end and p.start < s.end for s in found.spans)]
    shown = extract(passage, [*found.spans, *companions(passage, pieces, touched)])
    spans = shown.covered if shown else ()
    return Fidelity(shown.text if shown else "", found.sentences, spans, True)


def same_question(asked: str, cleared: str, *, language: str = "en") -> str | None:
    """Why ``cleared`` does not ask for the same thing as ``asked``; None when it does.

    >>> same_question("How tall is the tower? I think 200 m.", "How tall is the tower?")
    >>> same_question("How tall is the tower? I think 200 m.", "Is the tower 200 m tall?")
    'a question of another kind: how far was asked, not polar'
    """
    return why_not_same(asked, cleared, language=language)
