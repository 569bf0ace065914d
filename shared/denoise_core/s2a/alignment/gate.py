"""The fidelity gate: nothing that a model wrote passes for the source unless the source bears it out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from denoise_core.errors import InputError
from denoise_core.s2a.alignment.align import Source
from denoise_core.s2a.result import Sentence
from denoise_core.s2a.units import units
from denoise_core.text.chunk import extract
from denoise_core.text.tokens import is_content, tokens
from denoise_core.types import Passage, Span

GatePolicy = Literal["snap", "repair", "flag", "reject"]

_NEAR = 0.4  # similarity from which a source sentence is shown for a written one that it does not bear out
_QUALIFIES = re.compile(
    r"\b(?:not|no|never|none|unless|except|only|if|but|however|without|at least|at most|provided"
    r"|assuming|claim\w*|alleged\w*"
    r"|nicht|kein\w*|nie|außer|nur|wenn|falls|sofern|ne|pas|sauf|sans|si|seulement|salvo|excepto|sin|solo|sólo|non|tranne"
    r"|se|não|sem|niet|geen|не|если|кроме)\b|[不无除仅若如]|لا|إلا|إذا|فقط",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FidelityGate:
    """What is shown of what a model wrote.

    ``"snap"`` shows the source: each written sentence stands for the source sentences it was made from, and these
    are what a reader sees, without a parenthesis or a part behind a semicolon that was left out. The others show
    what was written: ``"repair"`` puts source sentences in the place of what the source does not bear out,
    ``"flag"`` lets it through and lists it in the report, ``"reject"`` hands back the input passage. A written
    sentence that is like none of the source is left out under ``"snap"`` and ``"repair"``. ``max_new_words`` is
    the share of a sentence's content words that may be new before the sentence counts as added; 0 admits
    shortening and joining only.

    Raises `InputError` for an unknown policy or a share outside 0..1.
    """

    policy: GatePolicy = "snap"
    max_new_words: float = 0.5

    def __post_init__(self) -> None:
        if self.policy not in get_args(GatePolicy):
            known = ", ".join(map(repr, get_args(GatePolicy)))
            raise InputError(f"FidelityGate(policy={self.policy!r}): expected one of {known}")
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
    source = Source(passage.text, spans, max_new_words=gate.max_new_words, language=language)
    sentences = [_judge(written, s, source, question) for s in units(Passage(written, "w"), language=language)]
    if gate.policy == "reject" and any(s.kind == "added" for s in sentences):
        return Gated(None, (), tuple(sentences), rejected=True)
    if gate.policy == "snap":
        sentences = [_snapped(s, passage.text) for s in sentences]
    if gate.policy == "repair":
        sentences = [_repaired(s) for s in sentences]
    return _put_together(passage, tuple(sentences))


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


def _snapped(sentence: Sentence, source: str) -> Sentence:
    """The sentence as the source text it stands for."""
    if sentence.kind == "added":
        return _repaired(sentence)
    if sentence.kind != "edited":
        return sentence
    written = {t.norm for t in tokens(sentence.text)}
    spans = tuple(part for span in sentence.spans for part in _trimmed(span, source, written))
    return replace(sentence, spans=spans, action="snapped")


def _trimmed(span: Span, source: str, written: set[str]) -> tuple[Span, ...]:
    """``span`` without parentheses and parts behind a semicolon of which nothing was written.

    Only such cuts leave what stays with its meaning; and not one that qualifies it, such as a condition.
    """
    text = source[span.start : span.end]
    keep: list[Span] = []
    at = 0
    for match in _CUTTABLE.finditer(text):
        inner = match["inner"] or match["tail"]
        content = {t.norm for t in tokens(inner) if is_content(t)}
        if content and not content & written and not _QUALIFIES.search(inner):
            keep += [Span(span.passage_id, span.start + at, span.start + match.start())]
            at = match.end()
    keep.append(Span(span.passage_id, span.start + at, span.end))
    return tuple(s for s in keep if len(s))


_CUTTABLE = re.compile(r"\((?P<inner>[^()]{1,300})\)\s?|(?<=;)(?P<tail>[^;]+?)(?=\s{0,9}\Z)")


def _repaired(sentence: Sentence) -> Sentence:
    if sentence.kind != "added":
        return sentence
    near = sentence.spans if sentence.similarity >= _NEAR else ()
    return replace(sentence, spans=near, action="repaired" if near else "removed")


def _is_source(sentence: Sentence) -> bool:
    """Whether the source's own characters are shown for it."""
    return sentence.kind == "copied" or sentence.action in ("repaired", "snapped")


def _put_together(passage: Passage, sentences: tuple[Sentence, ...]) -> Gated:
    staying = [s for s in sentences if s.action != "removed" and s.text.strip()]
    spans = sorted({span for s in staying for span in s.spans}, key=lambda s: s.start)
    if all(_is_source(s) for s in staying):
        kept = extract(passage, spans)
        return Gated(kept.text if kept else None, tuple(spans), sentences, verbatim=True)
    texts: list[str] = []
    shown: set[Span] = set()
    for s in staying:
        if _is_source(s):
            fresh = [span for span in s.spans if span not in shown]
            texts.append("".join(passage.text[span.start : span.end] for span in fresh).strip())
            shown.update(fresh)
        else:
            texts.append(s.text.strip())
    return Gated("\n".join(t for t in texts if t) or None, tuple(spans), sentences)
