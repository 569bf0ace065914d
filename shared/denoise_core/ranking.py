"""How many passages of a result are returned, and in which order.

Decided after denoising, for every denoiser alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denoise_core.result import DenoiseResult
from denoise_core.runtime.guard import Guard
from denoise_core.text.chunk import extract_spans
from denoise_core.types import Drop, Keep, Passage


def may_fill(denoiser: Any) -> bool:
    """Whether dropped passages may be restored to reach a number of passages.

    A denoiser with a score threshold or a token limit dropped them on purpose.
    """
    while isinstance(denoiser, Guard):
        denoiser = denoiser.denoiser
    rule = getattr(denoiser, "rule", None)
    if rule is None:
        return False
    has_limit = hasattr(rule, "threshold") or hasattr(rule, "limit")
    return not has_limit


def keep_top(
    result: DenoiseResult,
    passages: Sequence[Passage],
    top_n: int,
    *,
    fill: bool = False,
) -> DenoiseResult:
    """Keep the ``top_n`` passages with the best score, in their order.

    Without a score for each passage, the first ones are kept.

    Args:
        result: Result of any denoiser.
        passages: The denoiser's input.
        top_n: Number of passages to keep.
        fill: If the result has fewer passages, add the best chunk of each dropped
            passage until it has ``top_n``.
    """
    has_room = len(result.passages) < top_n
    was_emptied = result.relevant is False and not result.passages
    has_failed = result.fallback is not None
    can_fill = has_room and not was_emptied and not has_failed
    if fill and can_fill:
        result = _fill_result(result, passages, top_n)
    if len(result.passages) <= top_n:
        return result
    passage_count = len(result.passages)
    ranked_indices = list(range(passage_count))
    has_scores = all(passage.score is not None for passage in result.passages)
    if has_scores:
        kept_ids = {keep.span.passage_id for keep in result.kept}

        def rank_key(n: int) -> tuple[bool, float]:
            # A passage kept only as context of another one, such as its title, is last.
            passage = result.passages[n]
            is_context = passage.id not in kept_ids
            score = passage.score or 0.0
            return is_context, -score

        # Sorting is stable: of equal scores the earlier passage is kept.
        ranked_indices.sort(key=rank_key)
    top_indices = set(ranked_indices[:top_n])
    top_passages = []
    drops = []
    cut_ids = set()
    reason = f"not among the best {top_n}"
    for n, passage in enumerate(result.passages):
        if n in top_indices:
            top_passages.append(passage)
            continue
        for span in passage.source_spans:
            new_drop = Drop(span, reason, passage.score)
            drops.append(new_drop)
            cut_ids.add(span.passage_id)
    keeps = []
    for keep in result.kept:
        if keep.span.passage_id not in cut_ids:
            keeps.append(keep)
    all_drops = (*result.dropped, *drops)
    return replace(
        result,
        passages=tuple(top_passages),
        dropped=all_drops,
        kept=tuple(keeps),
    )


def order_by_score(result: DenoiseResult) -> DenoiseResult:
    """Return the result with its best passage first.

    Passages without a score are last, in their original order.
    """

    def sort_key(passage: Passage) -> tuple[bool, float]:
        score = passage.score or 0.0
        return passage.score is None, -score

    ranked_passages = sorted(result.passages, key=sort_key)
    return replace(result, passages=tuple(ranked_passages))


def _fill_result(
    result: DenoiseResult,
    passages: Sequence[Passage],
    top_n: int,
) -> DenoiseResult:
    present_ids = set()
    for passage in result.passages:
        source_ids = [span.passage_id for span in passage.source_spans]
        present_ids.update(source_ids)
    scored_drops = [drop for drop in result.dropped if drop.score is not None]
    scored_drops.sort(key=lambda drop: -(drop.score or 0.0))
    best_drops: dict[str, Drop] = {}
    for drop in scored_drops:
        passage_id = drop.span.passage_id
        if passage_id not in present_ids:
            best_drops.setdefault(passage_id, drop)
    positions = {}
    for n, passage in enumerate(passages):
        positions[passage.id] = n
    filled_passages = list(result.passages)
    missing_count = top_n - len(result.passages)
    best_first = list(best_drops.values())
    restored_drops = best_first[:missing_count]
    new_keeps = []
    for drop in restored_drops:
        position = positions[drop.span.passage_id]
        source_passage = passages[position]
        chunk = extract_spans(source_passage, [drop.span])
        if chunk is not None and drop.score is not None:
            scored_chunk = replace(chunk, score=drop.score)
            filled_passages.append(scored_chunk)
            new_keep = Keep(drop.span, drop.score)
            new_keeps.append(new_keep)
    filled_passages.sort(key=lambda passage: positions.get(passage.id, -1))
    still_dropped = [drop for drop in result.dropped if drop not in restored_drops]
    all_keeps = (*result.kept, *new_keeps)
    return replace(
        result,
        passages=tuple(filled_passages),
        dropped=tuple(still_dropped),
        kept=all_keeps,
    )
