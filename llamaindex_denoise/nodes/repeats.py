"""Sentences that an earlier node shows already, as windows and overlapping chunks do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from denoise_core import DenoiseResult, Drop, Passage, Span
from denoise_core.spans import clip_spans, merge_spans
from denoise_core.text.chunk import extract_spans, sentence_ranges
from llamaindex_denoise.nodes.headers import source_node

# `SentenceWindowNodeParser` keeps the sentence of a window under this key.
_WINDOW_SENTENCE_KEY = "original_text"


class PlacedSentence(NamedTuple):
    """A kept sentence and where it begins in its document."""

    text: str
    position: int
    span: Span


def drop_repeats(result: DenoiseResult, inputs: Sequence[Passage]) -> DenoiseResult:
    """Return the result without sentences that an earlier node shows.

    Two nodes show one position of a document if the same sentence begins in both at
    positions that are closer than the sentence is long. Positions in a window are
    approximate, since LlamaIndex joins its sentences by spaces.

    Args:
        result: Passages that a model wrote, and nodes without a position in a document,
            are unchanged.
        inputs: The denoiser's input.
    """
    text_starts = _document_starts(inputs)
    if not text_starts:
        return result
    input_by_id = {passage.id: passage for passage in inputs}
    shown: dict[tuple[str, str, str], dict[int, str]] = {}
    passages = []
    drops = []
    for kept in result.passages:
        if kept.id not in text_starts or kept.is_rewritten:
            passages.append(kept)
            continue
        document_id, start = text_starts[kept.id]
        origin = input_by_id[kept.id]
        sentences = list(_kept_sentences(kept, origin.text, start))
        text_counts = Counter(sentence.text for sentence in sentences)
        new_spans = []
        for sentence in sentences:
            shown_key = (document_id, kept.header, sentence.text)
            positions = shown.setdefault(shown_key, {})
            earlier_id = _shown_by(positions, sentence)
            positions.setdefault(sentence.position, kept.id)
            # Repeated inside one node, its position proves no overlap.
            if earlier_id is None or text_counts[sentence.text] > 1:
                new_spans.append(sentence.span)
            else:
                reason = f"the same as in {earlier_id}"
                drops.append(Drop(sentence.span, reason, kept.score))
        shortened: Passage | None = kept
        if len(new_spans) < len(sentences):
            shortened = extract_spans(origin, new_spans)
        if shortened is not None:
            passages.append(replace(shortened, score=kept.score))
    if not drops:
        return result
    shown_ids = {passage.id for passage in passages}
    keeps = [keep for keep in result.kept if keep.span.passage_id in shown_ids]
    dropped = (*result.dropped, *drops)
    return replace(result, passages=tuple(passages), dropped=dropped, kept=tuple(keeps))


def _shown_by(positions: Mapping[int, str], sentence: PlacedSentence) -> str | None:
    """The id of the node that shows this position already."""
    for position, earlier_id in positions.items():
        if abs(position - sentence.position) < len(sentence.text):
            return earlier_id
    return None


def _kept_sentences(kept: Passage, text: str, start: int) -> Iterator[PlacedSentence]:
    source_ranges = [(span.start, span.end) for span in kept.source_spans]
    kept_ranges = merge_spans(source_ranges)
    for sentence_start, sentence_end in sentence_ranges(text):
        for first, end in clip_spans(kept_ranges, sentence_start, sentence_end):
            sentence_text = text[first:end].strip()
            span = Span(kept.id, first, end)
            yield PlacedSentence(sentence_text, start + first, span)


def _document_starts(passages: Sequence[Passage]) -> dict[str, tuple[str, int]]:
    """By id, the document of each passage and its start; {} if none has two."""
    text_starts = {}
    for passage in passages:
        document_start = _document_start(passage)
        if document_start is not None:
            text_starts[passage.id] = document_start
    documents = {document_id for document_id, _ in text_starts.values()}
    if len(documents) == len(text_starts):
        return {}
    return text_starts


def _document_start(passage: Passage) -> tuple[str, int] | None:
    """The document of a node and where its text begins there; None if unknown."""
    node = source_node(passage).node
    start = getattr(node, "start_char_idx", None)
    document_id = node.ref_doc_id
    if document_id is None or start is None:
        return None
    if getattr(node, "end_char_idx", None) == start + len(passage.text):
        return document_id, start
    sentence = str(node.metadata.get(_WINDOW_SENTENCE_KEY, ""))
    if passage.text.count(sentence) != 1:  # which one is the node's is not known
        return None
    return document_id, start - passage.text.index(sentence)
