"""LangChain's documents as the core's passages, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document

from denoise_core import DenoiseResult, InputError, Passage, unique_ids
from denoise_core._frameworks import copy_model
from denoise_core.runtime.record import passage_record
from langchain_denoise.observe import Fields, Record

Documents: TypeAlias = list[Document]

SCORE_KEY = "relevance_score"
"""Metadata key of a document's score, the one that LangChain's rerankers use."""

RECORD_KEYS = (
    "denoise_origin",
    "denoise_spans",
    "denoise_spans_left_out",
    "denoise_coverage",
    "denoise_extractive",
    "denoise_score",
    "denoise_fallback",
    "denoise_relevant",
    "denoise_note",
)
"""Metadata keys of a document's record: strings, numbers and booleans, which every store
accepts. None holds the query, so that equal documents stay equal."""

FALLBACK_KEY = "denoise_fallback"

HEADER_KEYS = ("title",)
"""The metadata that is read with a document's text by default."""


def describe_value(value: Any) -> str:
    """What a user passed, for an error: its type, the keys of a dict, or the class."""
    if isinstance(value, dict):
        return f"a dict with the keys {sorted(value)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}"


def read_documents(documents: Any, argument: str = "documents") -> Documents:
    """The documents of any iterable as a list; a generator is read once.

    A dict with ``page_content``, which is how a checkpoint or JSON stores a document,
    becomes a document again.

    Raises:
        InputError: For anything else; ``argument`` names it in the message.
    """
    single = isinstance(documents, (str, bytes, Document, Mapping))
    if single or not isinstance(documents, Iterable):
        raise InputError(
            f"{argument}: expected documents, got a {type(documents).__name__}; "
            f"write {argument}=[Document(page_content=...)]"
        )
    document_list = list(documents)
    for position, item in enumerate(document_list):
        if isinstance(item, dict) and "page_content" in item:
            document_list[position] = Document(**item)
        elif not isinstance(item, Document):
            raise InputError(
                f"{argument}[{position}]: expected a langchain_core Document, "
                f"got {type(item).__name__}; a text is Document(page_content=text)"
            )
    return document_list


def read_document_list(value: Any) -> Documents | None:
    """The documents of a list that has nothing else; None for any other value."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    try:
        return read_documents(value)
    except ValueError:
        return None


def restore_documents(
    documents: Sequence[Document],
    passages: Sequence[Passage],
    result: DenoiseResult,
    *,
    scores: bool,
) -> Documents:
    """The documents of a result.

    They are copies of the originals, of their type and with their id and metadata, with
    the kept text. The record replaces an earlier one under `RECORD_KEYS`, a new score
    goes to ``metadata["relevance_score"]``.

    Args:
        documents: The originals.
        passages: Their passages, in the same order.
        result: What the denoiser returned for the passages.
        scores: False writes no score, because scores differ by query.
    """
    original_passages = {passage.id: passage for passage in passages}
    original_documents = dict(zip(original_passages, documents, strict=True))
    restored = []
    for kept_passage in result.passages:
        record = passage_record(kept_passage, original_passages, result)
        original = original_documents.get(kept_passage.id)
        if original is None:
            original = _joint_document(kept_passage, original_documents)
        metadata = {
            key: value
            for key, value in original.metadata.items()
            if key not in RECORD_KEYS
        }
        metadata |= flatten_record(record, scores=scores)
        score = kept_passage.score if scores else None
        # One that did not change stays in the form that the user gave it.
        if score is not None and score != record["score_before"]:
            metadata[SCORE_KEY] = float(score)
        # A copy keeps the type and extra fields of a user's own document class.
        update = {"page_content": kept_passage.text, "metadata": metadata}
        restored.append(copy_model(original, update))
    return restored


def passages_from_documents(
    documents: Sequence[Document], header_keys: Sequence[str] = HEADER_KEYS
) -> tuple[Passage, ...]:
    """One passage per document, in order; ids are made unique.

    Args:
        documents: Documents as `read_documents` returns them.
        header_keys: The metadata that becomes a passage's header.

    Raises:
        InputError: For a text that is not a string.
    """
    passages = []
    document_ids = unique_document_ids(documents)
    for document, document_id in zip(documents, document_ids, strict=True):
        text = document.page_content
        metadata = dict(document.metadata)
        header = document_header(metadata, header_keys, text)
        value: Any = metadata.get(SCORE_KEY)
        has_score = isinstance(value, (int, float)) and not isinstance(value, bool)
        score = float(value) if has_score else None
        passages.append(Passage(text, document_id, score, metadata, header=header))
    return tuple(passages)


def unique_document_ids(documents: Sequence[Document]) -> list[str]:
    """The documents' ids, made unique by `unique_ids`.

    A document without an id is named by its text and not by its position, so that two
    searches give it the same id.
    """
    document_ids = []
    for document in documents:
        has_id = isinstance(document.id, str)
        document_ids.append(
            document.id if has_id else id_from_text(document.page_content)
        )
    return unique_ids(document_ids)


def id_from_text(text: Any) -> str | None:
    """An id made from a text; None if it is not a string."""
    if not isinstance(text, str):
        return None
    # "surrogatepass": text from the web may hold lone surrogates, which are not UTF-8.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"text-{digest[:16]}"


def document_header(metadata: Fields, keys: Sequence[str], text: str = "") -> str:
    r"""The values under the keys, one a line: the title alone, others after their key.

    Empty values are left out, and those that the text starts with. Items of a list are
    joined by commas.

    >>> metadata = {"title": "Paris", "year": 1889, "tags": ["city", "river"]}
    >>> document_header(metadata, ["title", "year", "tags"])
    'Paris\nyear: 1889\ntags: city, river'
    """
    opening = text.lstrip() if isinstance(text, str) else ""
    lines = []
    for key in keys:
        value = metadata.get(key)
        if isinstance(value, (list, tuple, set, frozenset)):
            value = ", ".join(map(str, value))
        value_text = "" if value is None else str(value).strip()
        if value_text and not opening.startswith(value_text):
            lines.append(value_text if key == "title" else f"{key}: {value_text}")
    return "\n".join(lines)


def flatten_record(record: Fields, *, scores: bool) -> Record:
    """A record as metadata under `RECORD_KEYS`: lists and dicts as JSON, no None."""
    metadata = {}
    # Without scores, what differs by query is left out, but for a warning.
    hidden_keys = set()
    if not scores:
        hidden_keys = {"denoise_score"}
        if record.get("relevant") is not False:
            hidden_keys |= {"denoise_relevant", "denoise_note"}
    for key in RECORD_KEYS:
        value = record.get(key.removeprefix("denoise_"))
        if value is None or key in hidden_keys:
            continue
        if isinstance(value, (list, dict)):
            value = json.dumps(value, ensure_ascii=False)
        metadata[key] = value
    return metadata


def _joint_document(passage: Passage, originals: Mapping[str, Document]) -> Document:
    """A document of one text from several, with the metadata they agree on."""
    sources = [
        originals[span.passage_id].metadata
        for span in passage.source_spans
        if span.passage_id in originals
    ]
    first, *other_documents = sources or [{}]
    shared_metadata = {}
    for key, value in first.items():
        if all((key, value) in other.items() for other in other_documents):
            shared_metadata[key] = value
    # A score belongs to one document, not to the joint text.
    shared_metadata.pop(SCORE_KEY, None)
    return Document(page_content="", id=passage.id, metadata=shared_metadata)
