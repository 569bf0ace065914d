"""What a question asks for decides how much is kept: one fact, a list, a summary.

``keep="auto"`` keeps what is close to the best score. That is right for one fact, which is
looked for in the documents that fit best (`score_distances`). A list needs rows that score
far apart, a summary the document, and a question of two steps a piece that shares few words
with it: `widen_selection` adds them, so a wrong "list" costs text and no answer. An error
code or a ticket number is asked about by name: `keep_named_pieces`.

A scorer that is a `KindClassifier` names the kind; `denoise_core.embedded.kinds` has the
default's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.selection import Mask, ScoredChunks, Selection, rank_by_score
from denoise_core.text.references import find_identifiers

QuestionKind: TypeAlias = Literal["lookup", "list", "compare", "summary", "two_step"]

NAMED_CHARACTERS = 2000  # of the pieces that name one identifier of the question
BEST_PIECES = 3  # pieces whose mean score says how well a document fits the question


@runtime_checkable
class KindClassifier(Protocol):
    """A scorer that also says what kind of question it is asked."""

    def question_kind(self, query: str) -> QuestionKind:
        """Name the kind; "lookup" if unsure."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentRule:
    """Which documents are kept whole, and up to how much.

    Attributes:
        margin: How far below the best document's strength another one may be.
        max_characters: How much of each document; its best pieces if it is longer.
        max_gap: How far the last of a document's `BEST_PIECES` may be below its best one. A
            wider gap separates the pieces: then the margin has kept what is asked for.
        max_piece_size: Mean characters of a document's pieces: rows are short, and prose in
            paragraphs is no list.
        request: What the question asks for, as the note says it.
    """

    margin: float
    max_characters: int
    max_gap: float
    max_piece_size: float
    request: str


# Chosen on the development half of the company files: the smallest margins that keep .85
# of the rows and key points, both of whole files and of pieces of 600 characters.
DOCUMENT_RULES: dict[str, DocumentRule] = {
    "summary": DocumentRule(0.5, 8000, math.inf, math.inf, "a summary"),
    "list": DocumentRule(0.9, 6000, 2.0, 300, "a list or a count"),
}


def widen_selection(
    kind: QuestionKind,
    selection: Selection,
    chunk_texts: Sequence[str],
    document_numbers: Sequence[int],
) -> Selection:
    """Also keep what a question of this kind needs, and say so in a note.

    A list and a summary keep the documents that fit best whole, up to a limit; a question of
    two steps keeps the best piece of every document that has several.

    Args:
        kind: The question's kind; "lookup" and "compare" add nothing.
        selection: What ``keep="auto"`` selected.
        chunk_texts: The chunks' texts, in the order of the selection's spans.
        document_numbers: The chunks' documents, in the same order.
    """
    documents = _document_chunks(selection, document_numbers)
    kept_mask = selection.kept.copy()
    note = ""
    if kind in DOCUMENT_RULES:
        note = _keep_documents(
            DOCUMENT_RULES[kind], selection, chunk_texts, documents, kept_mask
        )
    elif kind == "two_step":
        note = _keep_best_pieces(documents, kept_mask)
    if not note:
        return selection
    return replace(selection, kept=kept_mask, notes=(*selection.notes, note))


def keep_named_pieces(
    query: str, selection: Selection, chunks: ScoredChunks
) -> Selection:
    """Also keep the pieces that name an identifier of the question, and say so in a note.

    An encoder hardly tells ``E-207`` from ``E-214``. What pieces of more than
    `NAMED_CHARACTERS` name, such as a product, does not tell which of them are needed.
    """
    kept_mask = selection.kept.copy()
    found_names = []
    for name in sorted(find_identifiers(query)):
        rows = chunks.rows_naming(name)
        size = 0
        for row in rows:
            size += len(chunks.texts[row])
        if size <= NAMED_CHARACTERS and not kept_mask[rows].all():
            kept_mask[rows] = True
            found_names.append(name)
    if not found_names:
        return selection
    note = f"what names {', '.join(found_names)} is kept"
    return replace(selection, kept=kept_mask, notes=(*selection.notes, note))


def _document_chunks(
    selection: Selection, document_numbers: Sequence[int]
) -> list[NDArray[np.intp]]:
    """The scored chunks of each document, the best first."""
    chunks_by_document: dict[int, list[int]] = {}
    for chunk in rank_by_score(selection.scores).tolist():
        if np.isfinite(selection.scores[chunk]):
            number = document_numbers[chunk]
            chunks_by_document.setdefault(number, []).append(chunk)
    return [np.array(chunks) for chunks in chunks_by_document.values()]


def _keep_best_pieces(documents: Sequence[NDArray[np.intp]], kept_mask: Mask) -> str:
    """Mark the best piece of each document that has several; return the note, "" if none."""
    best_pieces = [chunks[0] for chunks in documents if len(chunks) > 1]
    if not best_pieces:
        return ""
    kept_mask[best_pieces] = True
    return "the question takes two steps: the best piece of every document is kept"


def _keep_documents(
    rule: DocumentRule,
    selection: Selection,
    chunk_texts: Sequence[str],
    documents: Sequence[NDArray[np.intp]],
    kept_mask: Mask,
) -> str:
    """Mark the documents that fit best in ``kept_mask``; return the note, "" if none."""
    strengths = []
    for chunks in documents:
        strengths.append(float(selection.scores[chunks[:BEST_PIECES]].mean()))
    document_count = 0
    for chunks, strength in zip(documents, strengths, strict=True):
        text_sizes = np.cumsum([len(chunk_texts[chunk]) for chunk in chunks])
        piece_scores = selection.scores[chunks[:BEST_PIECES]]
        is_separated = piece_scores[0] - piece_scores[-1] > rule.max_gap
        is_prose = text_sizes[-1] > rule.max_piece_size * len(chunks)
        is_weak = strength < max(strengths) - rule.margin
        if is_separated or is_prose or is_weak:
            continue
        kept_mask[chunks[text_sizes <= rule.max_characters]] = True
        document_count += 1
    if not document_count:
        return ""
    return (
        f"the question asks for {rule.request}: the documents that fit best are kept "
        f"({document_count}), up to {rule.max_characters:,} characters of each"
    )
