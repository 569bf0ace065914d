"""Nothing lost by a NONE: where nothing at all was kept and a scorer finds a passage clearly relevant, ask once
more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import MissingExtra
from denoise_core.protocols import Scorer
from denoise_core.running.fallbacks import fell_back
from denoise_core.s2a.assemble import Assembled, untouched
from denoise_core.s2a.options import Options
from denoise_core.s2a.replies import Outcome
from denoise_core.types import Passage

CLEARLY = 3.0  # halfway from the floor of the default's scale (1.5: nothing seems to fit) to its top (4.57)
MOST = 3  # passages that are looked at again
CONFIRMED = "nothing was kept of any passage, though this one looked relevant: asked once more, and confirmed"
UNCONFIRMED = "nothing was kept of any passage, though this one looked relevant: asked once more in vain"
FOUND = "nothing was kept of any passage, though this one looked relevant: asked once more, and kept"


def scores(query: str, passages: Sequence[Passage], options: Options) -> NDArray[np.float32] | None:
    """What the options' scorer, or the default that ships, makes of the passages; None, said aloud, without its
    extra."""
    scorer: Scorer
    if options.scorer is not None:
        scorer = options.scorer
    else:
        from denoise_core.embedded import DefaultScorer

        scorer = DefaultScorer()
    try:
        return np.asarray(scorer.score(query, [p.headed for p in passages]), dtype=np.float32)
    except MissingExtra as error:
        fell_back("S2ADenoiser", error, "a selection of nothing was not confirmed")
        return None


def suspicious(query: str, passages: Sequence[Passage], options: Options) -> tuple[Passage, ...]:
    """The passages that are clearly relevant by the scorer, best first."""
    found = scores(query, passages, options)
    if found is None:
        return ()
    least = CLEARLY if options.clearly is None else options.clearly
    best = [int(n) for n in np.argsort(-found, kind="stable") if found[n] >= least]
    return tuple(passages[n] for n in best[:MOST])


def merged(outcomes: Sequence[Outcome], again: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with those of the second look in their places; one that failed leaves the first, and a note."""
    looked = {o.part.span: o for o in again}
    out = []
    for o in outcomes:
        second = looked.get(o.part.span)
        if second is not None and second.problem is not None:
            note = f"{UNCONFIRMED}: {second.problem}"
            second = replace(o, notes=(*o.notes, note), calls=o.calls + second.calls)
        elif second is not None:
            note = FOUND if second.kept else CONFIRMED
            second = replace(second, notes=(*o.notes, note), calls=o.calls + second.calls)
        out.append(second or o)
    return out


def filled(query: str, passages: Sequence[Passage], done: list[Assembled], options: Options) -> list[Assembled]:
    """With ``options.at_least`` passages kept: the best by the scorer come whole where fewer are."""
    missing = options.at_least - sum(d.passage is not None for d in done)
    left = [n for n, d in enumerate(done) if d.passage is None and passages[n].text.strip()]
    if missing <= 0 or not left:
        return done
    found = scores(query, [passages[n] for n in left], options)
    order = range(len(left)) if found is None else np.argsort(-found, kind="stable")
    for place in list(order)[:missing]:
        n = left[int(place)]
        note = f"kept whole: at_least={options.at_least} passages stay"
        fresh = untouched(passages[n], note)
        done[n] = replace(fresh, report=replace(done[n].report, notes=(*done[n].report.notes, note)))
    return done
