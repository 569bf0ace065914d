"""Admit chunks again that a denoiser had dropped, highest score first."""

from __future__ import annotations

from dataclasses import replace

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.text.chunk import extract
from denoise_core.types import Drop, Passage, unique_ids


def readmit(memory: WorkingMemory, count: int) -> WorkingMemory:
    """``memory`` with up to ``count`` dropped ranges back in the evidence.

    A range goes back into its passage, at its place; beside text that a model rewrote it stands as a passage
    of its own. Ranges without a score come last; ties keep their order.
    """
    ranked = sorted(memory.dropped, key=lambda d: float("-inf") if d.score is None else d.score, reverse=True)
    evidence = memory.evidence
    for drop in ranked[:count]:
        evidence = _admit(memory.retrieved, evidence, drop)
    return replace(memory, evidence=evidence, dropped=tuple(ranked[count:]))


def _admit(retrieved: tuple[Passage, ...], evidence: tuple[Passage, ...], drop: Drop) -> tuple[Passage, ...]:
    source = next((p for p in retrieved if p.id == drop.span.passage_id), None)
    if source is None:  # a denoiser that names a passage nobody gave it
        return evidence
    for at, passage in enumerate(evidence):
        if passage.id == source.id and not passage.rewritten:
            whole = extract(source, (*passage.covered, drop.span)) or passage
            return (*evidence[:at], whole, *evidence[at + 1 :])
    back = extract(source, (drop.span,))
    if back is None:
        return evidence
    new_id = unique_ids([*(p.id for p in evidence), back.id])[-1]
    return (*evidence, back if new_id == back.id else replace(back, id=new_id))
