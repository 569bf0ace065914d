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

    A passage that does not fit, and alone fills more than a quarter of the budget, keeps
    the parts that share most words with ``topic``.

    Args:
        passages: The passages, best first.
        tokens: The budget.
        topic: The text that decides which parts of a long passage are kept.

    Returns:
        The kept passages, and the ranges left out, without a score.
    """
    kept = []
    drops = []
    budget = TokenBudget(tokens)
    for passage in passages:
        text = passage.text_with_header
        if budget.try_add(text):
            kept.append(passage)
            continue
        part = None
        left_out = passage.source_spans
        remaining_tokens = budget.remaining_tokens
        if estimate_tokens(text) > tokens // 4:
            part, left_out = _best_windows(passage, remaining_tokens, topic)
        if part is not None:
            kept.append(part)
            part_tokens = estimate_tokens(part.text_with_header)
            budget.try_spend(min(remaining_tokens, part_tokens))
        drops += [Drop(span, OVER_BUDGET) for span in left_out]
    return tuple(kept), tuple(drops)


def count_tokens(passages: Sequence[Passage]) -> int:
    """Tokens of all passages with their headers, by `estimate_tokens`."""
    passage_texts = [passage.text_with_header for passage in passages]
    token_counts = map(estimate_tokens, passage_texts)
    return sum(token_counts)


def blank_over_budget(
    passages: Sequence[Passage], tokens: int, topic: str
) -> tuple[Passage, ...]:
    """Empty the passages over the budget; order and number stay.

    For evidence that a drafter numbered: ``[7]`` stays the seventh. Passages that share
    most words with ``topic`` keep their text, the earlier first among equals, and a text
    that is there already is the last to keep it.
    """
    if count_tokens(passages) <= tokens:
        return tuple(passages)
    texts = [passage.text_with_header for passage in passages]
    ranked_indexes = _order_by_shared_words(texts, topic)
    # Reversed, so that of equal texts the first one's index is the last written.
    first_indexes = {texts[index]: index for index in reversed(ranked_indexes)}
    ranked_indexes.sort(key=lambda index: first_indexes[texts[index]] != index)
    ranked_passages = [passages[index] for index in ranked_indexes]
    kept_passages, _ = truncate_to_budget(ranked_passages, tokens, topic)
    kept_by_id = {passage.id: passage for passage in kept_passages}
    numbered_passages = []
    for passage in passages:
        empty_passage = replace(
            passage, text="", header="", spans=(), is_rewritten=False
        )
        numbered_passage = kept_by_id.get(passage.id, empty_passage)
        numbered_passages.append(numbered_passage)
    return tuple(numbered_passages)


def _order_by_shared_words(texts: Sequence[str], topic: str) -> list[int]:
    """Indexes of the texts, those first that share most words with the topic."""
    topic_words = frozenset(content_words(topic))
    shared_counts = []
    for text in texts:
        shared_words = topic_words.intersection(content_words(text))
        shared_counts.append(len(shared_words))
    return sorted(range(len(texts)), key=lambda index: -shared_counts[index])


def _best_windows(
    passage: Passage, tokens: int, topic: str
) -> tuple[Passage | None, tuple[Span, ...]]:
    """The windows of a long passage that share most words with the topic.

    Returns:
        The passage with the windows that fit, None when none does, and the ranges left
        out.
    """
    split_windows = sentence_chunker(_WINDOW_CHARACTERS)
    spans = split_windows(passage)
    window_texts = [passage.text[span.start : span.end] for span in spans]
    budget = TokenBudget(tokens - estimate_tokens(passage.header))
    kept_indexes = set()
    for index in _order_by_shared_words(window_texts, topic):
        if not budget.try_add(window_texts[index]):
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
    kept_part = replace(part, spans=tuple(kept_spans))
    return kept_part, tuple(left_out)


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
        is_source = passage.id == passage_id
        if is_source and not passage.is_rewritten:
            spans = (*passage.source_spans, drop.span)
            completed = extract_spans(source, spans) or passage
            return (*evidence[:index], completed, *evidence[index + 1 :])
    restored = extract_spans(source, (drop.span,))
    if restored is None:
        return evidence
    ids = [passage.id for passage in evidence]
    *_, new_id = unique_ids([*ids, restored.id])
    return (*evidence, replace(restored, id=new_id))
