"""One claim held against the evidence: the window that supports most of it, and what differs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_core.support.coverage import ASKED, Asked, Term, coverage, found, rough, said_by
from denoise_core.support.evidence import Evidence, Window
from denoise_core.support.result import Claim
from denoise_core.text.facts import Difference
from denoise_core.text.facts.crossing import crossed, elsewhere, mixed
from denoise_core.text.facts.difference import compare
from denoise_core.text.facts.match import HELD
from denoise_core.text.facts.reading import Reading

_TOP = 5  # sentences around which windows are laid
_READ = 10  # windows whose facts are read
_APART = 0.04  # for each sentence more than one
_BROKEN = 0.35  # for each difference
_NAME = 0.2  # for a name, for which the window may say "he"
_CLOSE = 0.12  # windows so close to the best may be taken for it, when their facts fit
_FEW = 2  # new words of a short claim, of which more must stand
_SHORT = 0.6
_MOST_WINDOWS = 60


@dataclass(frozen=True, slots=True)
class _Tried:
    window: Window
    coverage: float
    differences: tuple[Difference, ...]
    missing: tuple[Term, ...]

    @property
    def score(self) -> float:
        """Coverage less what differs and what is far apart."""
        apart = _APART * (len(self.window.sentences) - 1)
        return max(
            0.0, self.coverage - apart - sum(_NAME if d.kind == "name" else _BROKEN for d in self.differences)
        )


def hold(
    text: str, start: int, asked: Asked, evidence: Evidence, least: float, among: frozenset[int] | None = None
) -> Claim:
    """``text`` is the claim, ``start`` its place in the answer, ``among`` the passages that count, by number."""
    end = start + len(text)
    own = Reading.of(text).language
    foreign = bool(own and evidence.language and own != evidence.language)
    claim = Reading.of(text, own if foreign else evidence.language)
    said = said_by(claim, asked)
    if not said:
        return Claim(text, start, end, None, 0.0, why="it has no word that could be held against evidence")
    tried = _tried(claim, said, asked, evidence, among)
    if not tried or (foreign and max(t.coverage for t in tried) < least):
        why = "it is in another language than the evidence" if foreign else "no passage says anything like it"
        missing = tuple(dict.fromkeys(text[t.start : t.end] for t in said))
        spans = tried[0].window.spans(evidence.ids) if tried else ()
        nowhere = () if foreign else compare(claim, Reading.of(""))
        differing = tuple(replace(d, start=d.start + start, end=d.end + start) for d in nowhere)
        return Claim(text, start, end, None if foreign else False, 0.0, spans, differing, missing, why)
    best = max(t.coverage for t in tried)
    close = [t for t in tried if t.coverage >= best - _CLOSE]
    chosen = max(close, key=lambda t: (t.score, -len(t.window.text)))
    differences = chosen.differences or _beside(claim, chosen, tried, asked, evidence)
    differences = (
        differences or _of_another(claim, said, chosen, evidence) or _conflict(claim, chosen, tried, evidence)
    )
    needed = max(least, _SHORT) if sum(t.weight == 1.0 for t in said) <= _FEW else least
    supported: bool | None = chosen.coverage >= needed and not differences
    if [d.kind for d in differences] == ["conflict"]:
        supported = None
    score = max(0.0, chosen.score - (_BROKEN if differences and not chosen.differences else 0.0))
    missing = tuple(dict.fromkeys(text[t.start : t.end] for t in chosen.missing))
    return Claim(
        text,
        start,
        end,
        supported,
        round(score, 6),
        chosen.window.spans(evidence.ids),
        tuple(_placed(d, start, chosen.window) for d in differences),
        missing,
        "" if supported else _why(differences, missing),
    )


def _tried(
    claim: Reading, said: Sequence[Term], asked: Asked, evidence: Evidence, among: frozenset[int] | None
) -> list[_Tried]:
    """The windows that may support the claim, with what differs in each."""
    selecting = {t.norm: t.weight for t in said}
    for term in asked.terms:
        selecting.setdefault(term, ASKED / 2)
    laid = evidence.windows(evidence.best(selecting, among, _TOP))[:_MOST_WINDOWS]
    several = len({t.clause for t in said}) > 1 or sum(f.kind in HELD for f in claim.facts) > 1
    laid = [w for w in laid if several or len({s.passage for s in w.sentences}) == 1]
    ranked = sorted(laid, key=lambda w: (-rough(said, w, evidence) + _APART * len(w.sentences), len(w.text)))
    tried = []
    for window in ranked[:_READ]:
        source = Reading.of(window.text, evidence.language)
        found = tuple(
            d
            for d in compare(claim, source, asked.reading)
            if not _of_question(d, claim, asked) and not _named_before(d, claim, window, evidence)
        )
        share, missing = coverage(claim, said, source, window, evidence)
        if share > 0:
            tried.append(_Tried(window, share, found, missing))
    return tried


def _beside(
    claim: Reading, chosen: _Tried, tried: Sequence[_Tried], asked: Asked, evidence: Evidence
) -> tuple[Difference, ...]:
    """Facts that stand in the window, while other sentences say the rest of the claim of something else."""
    rest = asked.terms | {w.stem for w in claim.words}
    others = [t.window for t in tried if not set(t.window.sentences) & set(chosen.window.sentences)]
    best = max(others, key=lambda w: sum(evidence.rarity(t) for t in rest & w.terms), default=None)
    if best is None:
        return ()
    both = Reading.of(f"{chosen.window.text}\n{best.text}", evidence.language)
    return tuple((crossed(claim, both) or elsewhere(claim, both, asked.reading.facts) or mixed(claim, both))[:1])


def _named_before(difference: Difference, claim: Reading, window: Window, evidence: Evidence) -> bool:
    """A name that the window has not, but its passage has: the window may say "he". `coverage` says its worth."""
    if difference.kind != "name":
        return False
    words = [w.stem for w in claim.words if difference.start <= w.start and w.end <= difference.end]
    passages = {s.passage for s in window.sentences}
    return bool(words) and all(
        any(evidence.sentences[i].passage in passages for i in evidence.having.get(w, ())) for w in words
    )


def _of_question(difference: Difference, claim: Reading, asked: Asked) -> bool:
    """A word of degree or quantity that the question has is not the claim's."""
    word = claim.text[difference.start : difference.end].casefold()
    return difference.kind in ("degree", "quantity") and word in asked.reading.text.casefold()


def _of_another(
    claim: Reading, said: Sequence[Term], chosen: _Tried, evidence: Evidence
) -> tuple[Difference, ...]:
    """A number or date that the window says of something else: what the claim begins with stands elsewhere only,
    and the window refers to nothing before it."""
    first = min(said, key=lambda t: t.start)
    held = [f for f in claim.facts if f.kind in ("number", "date", "time") and f.start > first.end]
    if not held or first not in chosen.missing or first.norm not in evidence.having:
        return ()
    if any(s.anaphor for s in chosen.window.sentences):
        return ()
    return (Difference("crossed", claim.text[first.start : first.end], "", first.start, first.end),)


def _conflict(
    claim: Reading, chosen: _Tried, tried: Sequence[_Tried], evidence: Evidence
) -> tuple[Difference, ...]:
    """Another passage says all that the claim says but one number or date, in place of which it has another."""
    own = {s.passage for s in chosen.window.sentences}
    for other in tried:
        if own & {s.passage for s in other.window.sentences} or len(other.differences) != 1:
            continue
        told = other.differences[0]
        fact = next((f for f in claim.facts if (f.start, f.end) == (told.start, told.end)), None)
        if fact is None or fact.kind not in ("number", "date") or told.kind != fact.kind or not told.stands:
            continue
        rest = [w.stem for w in claim.words if not fact.start <= w.start < fact.end]
        if len(rest) >= 2 and all(found(s, other.window.terms, evidence) for s in rest):
            return (replace(told, kind="conflict"),)
    return ()


def _placed(difference: Difference, start: int, window: Window) -> Difference:
    """Places in the answer and in the passage instead of in the claim and the window."""
    first = last = None
    if difference.source_start is not None and difference.source_end is not None:
        place = window.place(difference.source_start)
        if place and place[0] is window.sentences[0]:
            first, last = place[1], place[1] + difference.source_end - difference.source_start
    return replace(
        difference,
        start=difference.start + start,
        end=difference.end + start,
        source_start=first,
        source_end=last,
    )


def _why(differences: Sequence[Difference], missing: Sequence[str]) -> str:
    if differences:
        return "; ".join(str(d) for d in differences[:3])
    return f"the passages do not say: {', '.join(missing[:8])}" if missing else "the passages do not say this"
