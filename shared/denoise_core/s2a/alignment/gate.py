"""The fidelity gate: nothing that a model wrote passes for the source unless the source bears it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from denoise_core.errors import InputError
from denoise_core.s2a.alignment.align import Source
from denoise_core.s2a.result import Sentence
from denoise_core.s2a.units import units
from denoise_core.text.chunk import extract
from denoise_core.text.tokens import is_content, tokens
from denoise_core.types import Passage, Span

GatePolicy = Literal["repair", "flag", "reject"]


@dataclass(frozen=True, slots=True)
class FidelityGate:
    """What is done about sentences that the source does not bear out.

    ``"repair"`` puts the aligned source sentences in their place, or nothing where none is like them;
    ``"flag"`` lets them through and lists them in the report; ``"reject"`` hands back the input passage.
    ``max_new_words`` is the share of a sentence's content words that may be new before the sentence counts
    as added; 0 admits shortening and joining only.

    Raises `InputError` for an unknown policy or a share outside 0..1.
    """

    policy: GatePolicy = "repair"
    max_new_words: float = 0.25

    def __post_init__(self) -> None:
        if self.policy not in ("repair", "flag", "reject"):
            raise InputError(f"FidelityGate(policy={self.policy!r}): expected 'repair', 'flag' or 'reject'")
        if not 0 <= self.max_new_words <= 1:
            raise InputError(f"FidelityGate(max_new_words={self.max_new_words}): expected a share between 0 and 1")


@dataclass(frozen=True, slots=True)
class Gated:
    """A rewritten text after the gate.

    ``text`` is None when nothing of it is left. ``spans`` are the source ranges it stands for; when
    ``verbatim`` it is exactly those characters. ``rejected`` is set under that policy.
    """

    text: str | None
    spans: tuple[Span, ...]
    sentences: tuple[Sentence, ...]
    verbatim: bool = False
    rejected: bool = False


def check(
    written: str,
    passage: Passage,
    spans: Sequence[Span],
    gate: FidelityGate,
    *,
    question: str = "",
    language: str = "en",
) -> Gated:
    """``written`` against the source sentences ``spans`` of ``passage``.

    Sentences that ask ``question`` count as the question: they are no part of the context and left out.
    """
    source = Source(passage.text, spans, max_new_words=gate.max_new_words)
    sentences = [_judge(written, s, source, question) for s in units(Passage(written, "w"), language=language)]
    if gate.policy == "reject" and any(s.kind == "added" for s in sentences):
        return Gated(None, (), tuple(sentences), rejected=True)
    if gate.policy == "repair":
        sentences = [_repaired(s) for s in sentences]
    return _put_together(passage, tuple(sentences))


def question_problem(asked: str, written: str) -> str | None:
    """Why ``written`` does not ask what the user ``asked``; None when it does.

    It may leave words out, but adds no number, name or negation, and few other words; and it keeps half of
    the words of a question in the user's message, or of the message when that has no question mark.
    """
    own, source = tokens(written), tokens(asked)
    if not own:
        return "it is empty"
    known = {t.norm for t in source}
    for token in own:
        if token.norm not in known and (token.kind in ("number", "negation") or (token.kind == "name" and known)):
            first_word = token is own[0] and token.kind == "name"
            if not first_word:
                return f"{token.kind} not in the user's question: {token.norm}"
    content = {t.norm for t in own if is_content(t)}
    if len(content - known) > max(1, 0.3 * len(content)):
        return f"new words: {', '.join(sorted(content - known)[:5])}"
    norms = {t.norm for t in own}
    best = 0.0
    for sentence in _questions(asked):
        inside = tokens(sentence)
        wanted = {t.norm for t in inside if is_content(t)} or {t.norm for t in inside}
        share = len(wanted & norms) / len(wanted) if wanted else 0.0
        turned = any(t.kind == "negation" and t.norm not in norms for t in inside)
        best = max(best, 0.0 if turned else share)
    return None if best >= 0.5 else "it does not ask the user's question"


def _questions(message: str) -> list[str]:
    """The sentences that end in a question mark; the whole message when there are none."""
    marked = message.replace("؟", "?").replace("？", "?")
    found: list[str] = []
    for part in marked.split("?")[:-1]:
        pieces = units(Passage(part, "q"))
        if pieces:
            found.append(part[pieces[-1].start : pieces[-1].end])
    return found or [message]


def _judge(written: str, span: Span, source: Source, question: str) -> Sentence:
    text = written[span.start : span.end]
    match = source.align(text)
    # A request without a question mark may as well be a statement that the source makes.
    if question and asks(text, question) and (_marked(text) or match.kind == "added"):
        return Sentence(text, span.start, span.end, "question", action="removed")
    return Sentence(text, span.start, span.end, match.kind, match.spans, match.similarity, match.reasons)


def asks(text: str, question: str) -> bool:
    """Whether a sentence only asks the question again: with a question mark, or in the question's own words."""
    own = {t.norm for t in tokens(text) if is_content(t)}
    if own and [t.norm for t in tokens(text)] in [[t.norm for t in tokens(s)] for s in _sentences(question)]:
        return True
    asked = {t.norm for t in tokens(question) if is_content(t)}
    return _marked(text) and bool(own) and len(own & asked) >= 0.7 * len(own)


def _marked(text: str) -> bool:
    return any(mark in text for mark in "?؟？")


def _sentences(text: str) -> list[str]:
    return [text, *(text[s.start : s.end] for s in units(Passage(text, "q")))]


def _repaired(sentence: Sentence) -> Sentence:
    if sentence.kind != "added":
        return sentence
    near = sentence.spans if sentence.similarity >= 0.4 else ()
    return replace(sentence, spans=near, action="repaired" if near else "removed")


def _put_together(passage: Passage, sentences: tuple[Sentence, ...]) -> Gated:
    staying = [s for s in sentences if s.action != "removed" and s.text.strip()]
    spans = sorted({span for s in staying for span in s.spans}, key=lambda s: s.start)
    if all(s.kind == "copied" or s.action == "repaired" for s in staying):
        kept = extract(passage, spans)
        return Gated(kept.text if kept else None, tuple(spans), sentences, verbatim=True)
    texts: list[str] = []
    shown: set[Span] = set()
    for s in staying:
        if s.kind == "copied" or s.action == "repaired":
            fresh = [span for span in s.spans if span not in shown]
            texts.append("".join(passage.text[span.start : span.end] for span in fresh).strip())
            shown.update(fresh)
        else:
            texts.append(s.text.strip())
    return Gated("\n".join(t for t in texts if t) or None, tuple(spans), sentences)
