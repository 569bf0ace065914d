"""A claim in free words read against its evidence: how likely people are to call it supported.

`row` puts the claim behind the pieces of evidence that share most with it before the network of `forward`, whose
heads are trained here to say of each piece of the claim, and of the whole, whether it is supported; `features`
adds what code can count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from denoise_core.embedded.reader import forward as f
from denoise_core.embedded.reader.forward import Logits, Row, overlap, unmarked
from denoise_core.embedded.reader.windows import Tokens, Window
from denoise_core.text.lexemes import lexemes
from denoise_core.text.stems import content

QUESTION, CLAIM, EVIDENCE = 24, 96, 192  # word pieces at most


@dataclass(frozen=True, slots=True)
class Chosen:
    """A claim's row, and the windows in it, the one that shares most with the claim first."""

    row: Row
    windows: tuple[Window, ...]


def chosen(question: str, claim: str, cut: Sequence[Window], tokens: Tokens) -> Chosen:
    """The row of a claim and of the windows that cover most of it: each is taken for what those before it left."""
    asked = tokens.pieces(question).ids[-QUESTION:]
    said = tokens.pieces(claim).ids[:CLAIM]
    taken = _greedy(said, asked, cut, tokens)
    pieces: dict[tuple[int, int], int] = {}
    order = {p: n for n, p in enumerate(dict.fromkeys(w.passage_id for w in cut))}
    for number in taken:
        w = cut[number]
        fresh = {(order[w.passage_id], at): i for i, (at, _) in zip(w.ids, w.places, strict=True) if at >= 0}
        for key, piece in fresh.items():
            if len(pieces) < EVIDENCE:
                pieces.setdefault(key, piece)
    evidence, before = list[int](), -1
    for (passage, _), piece in sorted(pieces.items()):
        if passage != before and evidence:
            evidence.append(tokens.between)
        before = passage
        evidence.append(piece)
    return Chosen(row(asked, said, evidence, tokens), tuple(cut[n] for n in taken))


def row(asked: Sequence[int], said: Sequence[int], evidence: Sequence[int], tokens: Tokens) -> Row:
    """``[CLS] question evidence [SEP] claim [SEP]``, the claim being what is inside; marks tell the three apart
    and what claim and evidence share."""
    common = (set(said) & set(evidence)) - unmarked(tokens)
    known = set(asked) & set(evidence)
    ids = (tokens.first, *asked, *evidence, tokens.between, *said, tokens.between)
    marks = (
        f.SPECIAL,
        *(f.HEAD_SHARED if i in known else f.HEAD for i in asked),
        *(f.SPECIAL if i == tokens.between else f.BODY_SHARED if i in common else f.BODY for i in evidence),
        f.SPECIAL,
        *(f.ASKED_SHARED if i in common else f.ASKED for i in said),
        f.SPECIAL,
    )
    return Row(ids, marks, len(asked) + len(evidence) + 2)


def logit(said: Logits) -> float:
    """Of "supported": what the network says of the claim's pieces, each weighed as it says, and of the whole."""
    if not len(said.start):
        return said.holds
    weight = np.exp(said.end - said.end.max())
    return said.holds + float((weight * said.start).sum() / weight.sum())


def _greedy(said: Sequence[int], asked: Sequence[int], cut: Sequence[Window], tokens: Tokens) -> list[int]:
    """Numbers of the windows to read, best first, until they fill `EVIDENCE`."""
    if not cut:
        return []
    whole = overlap(said, cut, tokens) + 0.3 * overlap(asked, cut, tokens)
    left, room, rest, out = set(said), EVIDENCE, set(range(len(cut))), list[int]()
    while rest and room > 0 and len(out) < 8:
        near = sorted(rest, key=lambda n: (-whole[n], n))[:24]
        gain = overlap(sorted(left), [cut[n] for n in near], tokens) if left else whole[near] * 0
        number = near[max(range(len(near)), key=lambda k: (gain[k] + 0.3 * whole[near[k]], -near[k]))]
        out.append(number)
        rest.discard(number)
        left -= set(cut[number].ids)
        room -= len(cut[number].ids)
    return out


@dataclass(frozen=True, slots=True)
class Told:
    """What a text says, as far as code can count it: content stems, pairs of stems and numbers that stand close
    together (`NEAR` of them), and numbers. A text that is a claim has its own pairs only."""

    stems: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    numbers: frozenset[str]

    @staticmethod
    def of(text: str, near: int = 1) -> Told:
        found = lexemes(text)
        numbers = [(x.start, x.text) for x in found if x.shape == "number"]
        said = [stem for _, stem in sorted([(w.start, w.stem) for w in content(found, "en")] + numbers)]
        pairs = {
            pair
            for i, one in enumerate(said)
            for two in said[i + 1 : i + 1 + near]
            for pair in ((one, two), (two, one))
        }
        return Told(frozenset(said), frozenset(pairs), frozenset(x for _, x in numbers))


NEAR = 3  # content words in which two that a claim says next to each other may stand in the evidence


def features(logit: float, claim: str, told: Sequence[Told]) -> dict[str, float]:
    """For `Calibration.claims`: the network's logit; the share of the claim's words that the best window has, of
    its pairs that any has, and of its numbers; 1 where it has none."""
    said = Told.of(claim)
    best = max((_share(said.stems, t.stems) for t in told), default=0.0)
    pairs = frozenset[tuple[str, str]]().union(*(t.pairs for t in told))
    numbers = frozenset[str]().union(*(t.numbers for t in told))
    return {
        "logit": logit,
        "best window": best,
        "pairs": _share(said.pairs, pairs) if said.pairs else best,
        "numbers": _share(said.numbers, numbers),
    }


def _share(own: frozenset[Any], there: frozenset[Any]) -> float:
    return len(own & there) / len(own) if own else 1.0
