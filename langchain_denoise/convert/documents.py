"""LangChain's documents as the core's passages, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.documents import Document

from denoise_core import DenoiseResult, Guard, InputError, Passage, unique_ids
from denoise_core._frameworks import copy_model
from denoise_core.errors import format_error
from denoise_core.runtime.record import RecordDetail, group_chunks, passage_record

SCORE_KEY = "relevance_score"
"""Where LangChain's rerankers put a document's score; ours is read from and written to the same place."""

RECORD_KEYS = tuple(
    f"denoise_{name}"
    for name in (
        "origin", "spans", "spans_left_out", "coverage", "extractive", "score", "fallback",
        "kept", "dropped",
    )
)  # fmt: skip
"""Metadata keys under which the record of a document stands: strings, numbers and booleans, which every store
takes, and none that holds the query, so that equal documents stay equal."""

FALLBACK_KEY = "denoise_fallback"

HEADER_KEYS = ("title",)
"""The metadata that is read with a document's text when nothing else is said."""


def validate_header_keys(keys: Any) -> Any:
    """The ``header_keys`` as they came. Raises `InputError` for one string."""
    if isinstance(keys, str):
        raise InputError(
            f"header_keys={keys!r}: expected a list of metadata keys, such as [{keys!r}]"
        )
    return keys


def read_documents(given: Any, what: str = "documents") -> list[Document]:
    """Whatever gives documents one after the other, as a list: a generator or `filter` too, read once.

    A dict with ``page_content``, as a checkpoint or JSON brings documents back, is made a document again.
    Raises `InputError` that says what came and what to type.
    """
    if isinstance(given, (str, bytes, Document, Mapping)) or not isinstance(
        given, Iterable
    ):
        raise InputError(
            f"{what}: expected documents, got a {type(given).__name__}; write {what}=[Document(page_content=...)]"
        )
    documents = list(given)
    for position, document in enumerate(documents):
        if isinstance(document, dict) and "page_content" in document:
            documents[position] = Document(**document)
        elif not isinstance(document, Document):
            hint = (
                "; a text is Document(page_content=text)"
                if isinstance(document, str)
                else ""
            )
            raise InputError(
                f"{what}[{position}]: expected a langchain_core Document, got {type(document).__name__}{hint}"
            )
    return documents


class DocumentBatch:
    """Documents on their way in and out, under a guard's policy for each that cannot be converted.

    ``documents`` are those that can be read, ``passages`` what was made of them, ``failures`` why the others
    could not, by id.
    """

    def __init__(
        self, given: Sequence[Document], header_keys: Sequence[str], guard: Guard
    ) -> None:
        self.guard = guard
        self.documents: list[Document] = []
        self.passages: list[Passage] = []
        self.failures: dict[str, str] = {}
        self._stay: list[Document] = []
        for at, (document, i) in enumerate(
            zip(given, unique_document_ids(given), strict=True)
        ):
            try:
                self.passages.append(passage_from_document(document, i, header_keys))
            except (
                Exception
            ) as error:  # whatever stands in a document: its failure is its own
                why = guard.handle_failed_item(f"documents[{at}]", error)
                self.failures[i] = why or format_error(error)
                self._stay += [unconverted_document(document, why)] if why else []
            else:
                self.documents.append(document)

    def restore_documents(
        self,
        result: DenoiseResult,
        detail: RecordDetail = "spans",
        *,
        scores: bool = True,
    ) -> list[Document]:
        """The documents of the result; behind them those that could not be read, where the policy keeps them."""
        made = documents_from_result(
            self.documents, self.passages, result, detail, self.guard, scores=scores
        )
        return [*made, *self._stay]


def passages_from_documents(
    documents: Sequence[Document], header_keys: Sequence[str] = ()
) -> tuple[Passage, ...]:
    """One passage per document, in order; a missing or repeated id is replaced by one of its own.

    ``header_keys`` name the metadata that becomes the passage's header. Raises `InputError` for a text that is no
    string; `read_documents` comes before.
    """
    return tuple(
        passage_from_document(d, i, header_keys)
        for d, i in zip(documents, unique_document_ids(documents), strict=True)
    )


def unique_document_ids(documents: Sequence[Document]) -> list[str]:
    """The documents' ids made different, see `unique_ids`; one without an id is named by its text and not by its
    place, so that it is the same wherever it is found."""
    return unique_ids(
        [
            d.id if isinstance(d.id, str) else id_from_text(d.page_content)
            for d in documents
        ]
    )


def id_from_text(text: Any) -> str | None:
    """An id made from a text; None for what is none."""
    if not isinstance(text, str):
        return None
    return (
        f"text-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    )


def passage_from_document(
    document: Document, id: str, header_keys: Sequence[str] = ()
) -> Passage:
    """One document as a passage of this id. Raises whatever a document that is broken inside brings."""
    text, metadata = document.page_content, dict(document.metadata)
    header = document_header(metadata, header_keys, text) if header_keys else ""
    return Passage(text, id, _score_of(metadata), metadata, header=header)


def document_header(
    metadata: Mapping[str, Any], keys: Sequence[str], text: str = ""
) -> str:
    """What stands under the keys, a line each: a title as it is, another with its name before it.

    Empty values and such as the text begins with already are left out; a list is joined by commas.

    >>> header_of({"title": "Paris", "year": 1889, "tags": ["city", "river"]}, ["title", "year", "tags"])
    'Paris\\nyear: 1889\\ntags: city, river'
    """
    lines = []
    for key in keys:
        value = metadata.get(key)
        if isinstance(value, (list, tuple, set, frozenset)):
            value = ", ".join(map(str, value))
        said = "" if value is None else str(value).strip()
        if said and not (isinstance(text, str) and text.lstrip().startswith(said)):
            lines.append(said if key == "title" else f"{key}: {said}")
    return "\n".join(lines)


def documents_from_result(
    documents: Sequence[Document],
    passages: Sequence[Passage],
    result: DenoiseResult,
    detail: RecordDetail = "spans",
    guard: Guard | None = None,
    *,
    scores: bool = True,
) -> list[Document]:
    """The documents of a result: copies of the originals with the kept text, in the result's order.

    ``passages`` is what `to_passages` made of ``documents``. Id, type and metadata are the original's; the record
    goes to `RECORD_KEYS` of the metadata in the place of an earlier one, a new score to
    ``metadata["relevance_score"]``; without ``scores`` neither holds one, for they differ by query. What cannot be
    made a document again follows the policy of ``guard``, and raises without one.
    """
    original = {p.id: d for p, d in zip(passages, documents, strict=True)}
    given = {p.id: p for p in passages}
    chunks = group_chunks(result) if detail == "full" else None
    made = []
    for kept in result.passages:
        try:
            record = flatten_record(
                passage_record(kept, given, result, chunks, detail=detail),
                scores=scores,
            )
            made.append(_to_document(kept, original, given, record, scores))
        except (
            Exception
        ) as error:  # whatever stands in metadata: one document's failure is its own
            if guard is None:
                raise
            why = guard.handle_failed_item(f"document {kept.id!r}", error)
            ids = (
                [kept.id]
                if kept.id in original
                else dict.fromkeys(s.passage_id for s in kept.source_spans)
            )
            made += [unconverted_document(original[i], why) for i in ids] if why else []
    return made


def unconverted_document(document: Document, why: str) -> Document:
    """A document that could not be converted, with the reason in its record where one can be written."""
    with suppress(
        Exception
    ):  # whatever a broken document does when it is copied: then it stays what it is
        return document.model_copy(
            update={"metadata": {**document.metadata, FALLBACK_KEY: why}}
        )
    return document


def flatten_record(record: Mapping[str, Any], *, scores: bool = True) -> dict[str, Any]:
    """A record as metadata: its parts under `RECORD_KEYS`, lists and dicts as JSON, what is None left out."""
    made: dict[str, Any] = {}
    for name in RECORD_KEYS:
        value = record.get(name.removeprefix("denoise_"))
        if value is None or (name == "denoise_score" and not scores):
            continue
        made[name] = (
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, (list, dict))
            else value
        )
    return made


def evidence_documents(
    evidence: Sequence[Passage], retrieved: Sequence[Passage], question: str
) -> list[Document]:
    """What a loop ended with as evidence, as documents; ``retrieved`` is what it was cut from."""
    given = {p.id: p for p in retrieved}
    result = DenoiseResult(question, tuple(evidence))
    return [
        _new_document(
            p,
            p.metadata,
            flatten_record(passage_record(p, given, result, detail="spans")),
            True,
        )
        for p in evidence
    ]


def _to_document(
    kept: Passage,
    original: Mapping[str, Document],
    given: Mapping[str, Passage],
    record: dict[str, Any],
    scores: bool,
) -> Document:
    document = original.get(kept.id)
    if (
        document is None
    ):  # a joint rewrite: it has several originals, and keeps the metadata they agree on
        sources = [
            original[s.passage_id]
            for s in kept.source_spans
            if s.passage_id in original
        ]
        return _new_document(
            kept, _agreed([d.metadata for d in sources]), record, scores
        )
    metadata = {k: v for k, v in document.metadata.items() if k not in RECORD_KEYS}
    if scores and kept.score is not None and kept.score != given[kept.id].score:
        metadata[SCORE_KEY] = float(kept.score)
    return copy_model(
        document, {"page_content": kept.text, "metadata": {**metadata, **record}}
    )


def _new_document(
    kept: Passage, metadata: Mapping[str, Any], record: dict[str, Any], scores: bool
) -> Document:
    score = {SCORE_KEY: float(kept.score)} if scores and kept.score is not None else {}
    own = {k: v for k, v in metadata.items() if k not in RECORD_KEYS}
    return Document(
        page_content=kept.text, id=kept.id, metadata={**own, **score, **record}
    )


def _agreed(all_metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = all_metadata or [{}]
    return {
        key: value
        for key, value in first.items()
        if key not in (*RECORD_KEYS, SCORE_KEY)
        and all(key in m and m[key] == value for m in others)
    }


def _score_of(metadata: Mapping[str, Any]) -> float | None:
    score = metadata.get(SCORE_KEY)
    return (
        float(score)
        if isinstance(score, (int, float)) and not isinstance(score, bool)
        else None
    )
