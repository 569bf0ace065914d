"""The token budget of the evidence: ten thousand passages make no longer a prompt.

Evidence is truncated best first. What a denoiser or the budget left out can be restored.
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

OVER_BUDGET = "over the limit of evidence tokens"
_WINDOW_CHARACTERS = 600  # of the parts that a passage longer than the budget is cut in


def truncate_to_budget(
    passages: Sequence[Passage], tokens: int, topic: str
) -> tuple[tuple[Passage, ...], tuple[Drop, ...]]:
    """Keep the passages that fit, best first.

    Once one does not fit, shorter ones after it are left out too: they are worse. A
    passage that alone fills more than a quarter of the budget keeps the parts that share
    most words with ``topic``.

    Args:
        passages: The passages, best first.
        tokens: The budget.
        topic: The text that decides which parts of a long passage are kept.

    Returns:
        The kept passages, and the ranges left out, without a score.
    """
    kept: list[Passage] = []
    drops: list[Drop] = []
    budget = TokenBudget(tokens)
    is_full = False
    for passage in passages:
        text = passage.text_with_header
        if not is_full and budget.try_add(text):
            kept.append(passage)
            continue
        part = None
        left_out = passage.source_spans
        is_long = estimate_tokens(text) > tokens // 4
        if is_long and not is_full:
            part, left_out = _best_windows(passage, budget.remaining_tokens, topic)
        if part is not None:
            kept.append(part)
        drops += [Drop(span, OVER_BUDGET) for span in left_out]
        is_full = bool(kept)
    return tuple(kept), tuple(drops)


def count_tokens(passages: Sequence[Passage]) -> int:
    """Tokens of all passages with their headers, by `estimate_tokens`."""
    return sum(estimate_tokens(passage.text_with_header) for passage in passages)


def blank_over_budget(
    passages: Sequence[Passage], tokens: int, topic: str
) -> tuple[Passage, ...]:
    """Empty the passages over the budget; order and number stay.

    For evidence that a drafter numbered: ``[7]`` stays the seventh. Passages that share
    most words with ``topic`` keep their text, the earlier first among equals.
    """
    if count_tokens(passages) <= tokens:
        return tuple(passages)
    texts = [passage.text_with_header for passage in passages]
    result = list(passages)
    budget = TokenBudget(tokens)
    for index in _order_by_shared_words(texts, topic):
        token_count = estimate_tokens(texts[index])
        if budget.try_spend(token_count):
            continue
        passage = passages[index]
        part: Passage | None = None
        if budget.remaining_tokens > _WINDOW_CHARACTERS // 4:
            part, _ = _best_windows(passage, budget.remaining_tokens, topic)
        if part is None:
            result[index] = replace(
                passage, text="", header="", spans=(), is_rewritten=False
            )
        else:
            result[index] = part
            part_tokens = estimate_tokens(part.text_with_header)
            spent_tokens = min(budget.remaining_tokens, part_tokens)
            budget.try_spend(spent_tokens)
    return tuple(result)


def _order_by_shared_words(texts: Sequence[str], topic: str) -> list[int]:
    """Indexes of the texts, those first that share most words with the topic."""
    topic_words = frozenset(content_words(topic))
    shared_counts = []
    for text in texts:
        shared_words = topic_words.intersection(content_words(text))
        shared_counts.append(len(shared_words))
    indexes = range(len(texts))
    return sorted(indexes, key=lambda index: -shared_counts[index])


def _best_windows(
    passage: Passage, tokens: int, topic: str
) -> tuple[Passage | None, tuple[Span, ...]]:
    """The windows of a long passage that share most words with the topic.

    Returns:
        The passage with the windows that fit, None when none does, and the ranges left
        out.
    """
    spans = sentence_chunker(_WINDOW_CHARACTERS)(passage)
    texts = [passage.text[span.start : span.end] for span in spans]
    header_tokens = estimate_tokens(passage.header)
    budget = TokenBudget(tokens - header_tokens)
    kept_indexes: set[int] = set()
    for index in _order_by_shared_words(texts, topic):
        if not budget.try_add(texts[index]):
            break
        kept_indexes.add(index)
    kept_windows = [spans[index] for index in kept_indexes]
    part = extract_spans(passage, kept_windows)
    if part is None:
        return None, passage.source_spans
    if passage.is_rewritten:
        # Its text is no longer the characters of its spans: none can be left out.
        return replace(part, spans=passage.source_spans, is_rewritten=True), ()
    source_map = SourceMap(passage)
    kept_spans: list[Span] = []
    for span in part.source_spans:
        kept_spans += source_map.map_to_source(span)
    left_out: list[Span] = []
    for index, span in enumerate(spans):
        if index not in kept_indexes:
            left_out += source_map.map_to_source(span)
    return replace(part, spans=tuple(kept_spans)), tuple(left_out)


def restore_dropped(memory: WorkingMemory, count: int) -> WorkingMemory:
    """Return the memory with up to ``count`` dropped ranges back in the evidence.

    The highest score first, ranges without a score last; ties keep their order. A range
    goes back to its offset in its passage. If a model rewrote that passage, the range
    becomes a separate passage.
    """
    ranked_drops = sorted(memory.dropped, key=_drop_score, reverse=True)
    evidence = memory.evidence
    for drop in ranked_drops[:count]:
        evidence = _restore_range(memory.retrieved, evidence, drop)
    still_dropped = tuple(ranked_drops[count:])
    return replace(memory, evidence=evidence, dropped=still_dropped)


def _drop_score(drop: Drop) -> float:
    if drop.score is None:
        return float("-inf")
    return drop.score


def _restore_range(
    retrieved: tuple[Passage, ...], evidence: tuple[Passage, ...], drop: Drop
) -> tuple[Passage, ...]:
    passage_id = drop.span.passage_id
    sources = [passage for passage in retrieved if passage.id == passage_id]
    if not sources:  # a denoiser named a passage that it never got
        return evidence
    source = sources[0]
    for index, passage in enumerate(evidence):
        if passage.id == passage_id and not passage.is_rewritten:
            spans = (*passage.source_spans, drop.span)
            completed = extract_spans(source, spans) or passage
            before = evidence[:index]
            after = evidence[index + 1 :]
            return (*before, completed, *after)
    restored = extract_spans(source, (drop.span,))
    if restored is None:
        return evidence
    all_ids = [passage.id for passage in evidence]
    all_ids.append(restored.id)
    new_id = unique_ids(all_ids)[-1]
    return (*evidence, replace(restored, id=new_id))
