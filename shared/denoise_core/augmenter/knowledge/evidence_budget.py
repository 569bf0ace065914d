"""Evidence is capped by tokens, best first: ten thousand passages make no longer a prompt than a hundred.

What a denoiser or the cap left out can be admitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.runtime.pipeline import SourceMap
from denoise_core.text.chunk import extract_spans, sentence_chunker
from denoise_core.text.token_budget import TokenBudget, estimate_tokens
from denoise_core.text.words import content_words
from denoise_core.types import Drop, Passage, Span, unique_ids

OVER = "over the limit of evidence tokens"
_WINDOW = 600  # characters of the parts that a passage longer than the cap is read in


def truncate_to_budget(
    passages: Sequence[Passage], tokens: int, about: str
) -> tuple[tuple[Passage, ...], tuple[Drop, ...]]:
    """The passages that fit in ``tokens``, in their order, and what was left out.

    Passages are taken best first; one that does not fit any more is left out, and shorter ones after it are not
    taken in its place. A passage that alone would fill more than the room there is keeps the parts that share most
    words with ``about``. A left-out range has no score; it can be admitted again.
    """
    kept: list[Passage] = []
    left_out: list[Drop] = []
    budget = TokenBudget(tokens)
    full = False
    for passage in passages:
        if not full and budget.try_add(passage.text_with_header):
            kept.append(passage)
            continue
        part, rest = None, passage.source_spans
        if not full and estimate_tokens(passage.text_with_header) > tokens // 4:
            part, rest = _part(passage, budget.remaining_tokens, about)
        if part is not None:
            kept.append(part)
        left_out += [Drop(span, OVER) for span in rest]
        full = True
    return tuple(kept), tuple(left_out)


def count_tokens(passages: Sequence[Passage]) -> int:
    """Tokens of all of them, by the estimate of `estimate_tokens`."""
    return sum(estimate_tokens(p.text_with_header) for p in passages)


def blank_over_budget(
    passages: Sequence[Passage], tokens: int, about: str
) -> tuple[Passage, ...]:
    """The passages in their order and number, those over the cap without text.

    For evidence that a drafter numbered: ``[7]`` stays the seventh. Which ones keep their text is decided by the
    words they share with ``about``, the earlier first among equals.
    """
    sizes = [estimate_tokens(p.text_with_header) for p in passages]
    if sum(sizes) <= tokens:
        return tuple(passages)
    wanted = frozenset(content_words(about))
    shared = [
        len(wanted.intersection(content_words(p.text_with_header))) for p in passages
    ]
    order = sorted(range(len(passages)), key=lambda i: (-shared[i], i))
    out = list(passages)
    budget = TokenBudget(tokens)
    for i in order:
        if not budget.try_spend(sizes[i]):
            part = (
                _part(passages[i], budget.remaining_tokens, about)[0]
                if budget.remaining_tokens > _WINDOW // 4
                else None
            )
            out[i] = part or replace(
                passages[i], text="", header="", spans=(), is_rewritten=False
            )
            if part:
                budget.try_spend(
                    min(budget.remaining_tokens, estimate_tokens(part.text_with_header))
                )
    return tuple(out)


def _part(
    passage: Passage, tokens: int, about: str
) -> tuple[Passage | None, tuple[Span, ...]]:
    """The windows of a long passage that share most words with ``about``, as far as they fit, and the ranges
    left."""
    wanted = frozenset(content_words(about))
    spans = sentence_chunker(_WINDOW)(passage)
    texts = [passage.text[s.start : s.end] for s in spans]
    order = sorted(
        range(len(spans)),
        key=lambda i: (-len(wanted.intersection(content_words(texts[i]))), i),
    )
    budget = TokenBudget(tokens - estimate_tokens(passage.header))
    keep: set[int] = set()
    for i in order:
        if not budget.try_add(texts[i]):
            break
        keep.add(i)
    part = extract_spans(passage, [spans[i] for i in keep])
    if part is None:
        return None, passage.source_spans
    rest = [span for i, span in enumerate(spans) if i not in keep]
    if not (passage.spans or passage.is_rewritten):
        return part, tuple(rest)
    if passage.is_rewritten:  # its text is no longer the characters it stands for
        return replace(part, spans=passage.source_spans, is_rewritten=True), ()
    source = SourceMap(passage)
    kept = tuple(s for span in part.source_spans for s in source.back(span))
    return replace(part, spans=kept), tuple(
        s for span in rest for s in source.back(span)
    )


def restore_dropped(memory: WorkingMemory, count: int) -> WorkingMemory:
    """``memory`` with up to ``count`` dropped ranges back in the evidence.

    A range goes back into its passage, at its place; beside text that a model rewrote it stands as a passage
    of its own. Ranges without a score come last; ties keep their order.
    """
    ranked = sorted(
        memory.dropped,
        key=lambda d: float("-inf") if d.score is None else d.score,
        reverse=True,
    )
    evidence = memory.evidence
    for drop in ranked[:count]:
        evidence = _admit(memory.retrieved, evidence, drop)
    return replace(memory, evidence=evidence, dropped=tuple(ranked[count:]))


def _admit(
    retrieved: tuple[Passage, ...], evidence: tuple[Passage, ...], drop: Drop
) -> tuple[Passage, ...]:
    source = next((p for p in retrieved if p.id == drop.span.passage_id), None)
    if source is None:  # a denoiser that names a passage nobody gave it
        return evidence
    for at, passage in enumerate(evidence):
        if passage.id == source.id and not passage.is_rewritten:
            whole = extract_spans(source, (*passage.source_spans, drop.span)) or passage
            return (*evidence[:at], whole, *evidence[at + 1 :])
    back = extract_spans(source, (drop.span,))
    if back is None:
        return evidence
    new_id = unique_ids([*(p.id for p in evidence), back.id])[-1]
    return (*evidence, back if new_id == back.id else replace(back, id=new_id))
