"""A rule, such as a budget of tokens, over the pieces that a model named in its order of importance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from denoise_core.s2a.companions import companions
from denoise_core.s2a.options import Rule
from denoise_core.s2a.replies.read import Outcome
from denoise_core.types import Passage, Span


def within(rule: Rule, passages: Sequence[Passage], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with only the kept pieces that ``rule`` chooses.

    A piece's score is its place in the reply that named it: the first pieces of all replies come before the second
    ones. It is measured with what it cannot be read without. Outcomes with a problem stay as they are.
    """
    texts = {p.id: p for p in passages}
    named: list[tuple[Span, int, str]] = []
    for o in outcomes:
        for span in o.kept or ():
            passage = texts[span.passage_id]
            read = [*companions(passage, o.part.spans, (span,)), span]
            named.append((span, o.order[span], "".join(passage.text[s.start : s.end] for s in read)))
    if not named:
        return list(outcomes)
    scores = np.array([-place for _, place, _ in named], dtype=np.float32)
    mask = rule.choose(scores, [text for _, _, text in named])
    stays = {span for (span, _, _), chosen in zip(named, mask) if chosen}
    return list(_chosen(outcomes, stays, rule.reason()))


def _chosen(outcomes: Sequence[Outcome], stays: set[Span], reason: str) -> Iterator[Outcome]:
    for o in outcomes:
        if o.kept is None:
            yield o
        else:
            yield replace(
                o, kept=tuple(s for s in o.kept if s in stays), over={s: reason for s in o.kept if s not in stays}
            )
