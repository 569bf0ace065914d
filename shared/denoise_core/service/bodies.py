"""What clients send and get, as the OpenAPI page shows it.

An unknown field is a mistake, but not in a rerank request: stock clients send fields that only their own servers
know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from denoise_core.support.judging import Quotation, Quote
from denoise_core.types import Passage, replace_surrogates

MAX_PASSAGES = 10_000  # passages that any service takes; its own limit is lower
MAX_TEXT_CHARACTERS = 16_000_000  # characters of a text, likewise
MAX_QUESTION_CHARACTERS = 10_000


def _check_finite(metadata: dict[str, Any]) -> dict[str, Any]:
    json.dumps(metadata, allow_nan=False)  # a reply repeats it
    return metadata


def _check_ids(inputs: list[str | InputPassage]) -> list[str | InputPassage]:
    passages = to_passages(inputs)
    distinct_ids = {passage.id for passage in passages}
    if len(distinct_ids) < len(inputs):
        raise PydanticCustomError("same_id", "two passages have the same id")
    return inputs


ValidUnicode = BeforeValidator(
    lambda value: replace_surrogates(value) if isinstance(value, str) else value
)
"""Half a character, which JSON can spell and no reply can hold, is U+FFFD."""
BoundedText = Annotated[str, ValidUnicode, Field(max_length=MAX_TEXT_CHARACTERS)]
Question = Annotated[str, ValidUnicode, Field(max_length=MAX_QUESTION_CHARACTERS)]
BoundedName = Annotated[str, ValidUnicode, Field(max_length=1000)]
PassageLimit = Field(max_length=MAX_PASSAGES, fail_fast=True)


class DocumentBody(BaseModel):
    """A document of a rerank request as an object."""

    text: BoundedText


class RerankRequest(BaseModel):
    """Fields of Jina, Cohere, vLLM (``documents``), text-embeddings-inference (``texts``)."""

    query: Question
    documents: Annotated[list[BoundedText | DocumentBody], PassageLimit] | None = None
    texts: Annotated[list[BoundedText], PassageLimit] | None = None
    model: BoundedName | None = None
    top_n: int | None = Field(default=None, ge=0)
    return_documents: bool = False
    raw_scores: bool = False
    return_text: bool = False


class ScoreRequest(BaseModel):
    """Fields of vLLM's ``/score``: one text, and the texts to score with it."""

    text_1: Question
    text_2: BoundedText | Annotated[list[BoundedText], PassageLimit]
    model: BoundedName | None = None


class InputPassage(BaseModel, extra="forbid"):
    """A passage; its id is its number in the list unless given."""

    text: BoundedText
    id: BoundedName | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(_check_finite)] = Field(
        default_factory=dict
    )


PassageList = Annotated[
    list[BoundedText | InputPassage], PassageLimit, AfterValidator(_check_ids)
]


class DenoiseRequest(BaseModel, extra="forbid"):
    """Passages to denoise for a query."""

    query: Question
    passages: PassageList


class CheckRequest(BaseModel, extra="forbid"):
    """An answer to check with passages."""

    question: Question
    answer: BoundedText
    passages: PassageList


class CharacterRange(BaseModel):
    """Characters ``[start, end)`` of the passage ``id``."""

    id: str
    start: int
    end: int


class ScoredRange(CharacterRange):
    """A scored range; ``reason`` is why a range was dropped."""

    score: float | None
    reason: str = ""


class KeptPassage(BaseModel):
    """What is kept of a passage, and the ranges of its text."""

    id: str
    text: str
    rewritten: bool
    spans: list[CharacterRange]
    metadata: dict[str, Any]


class DenoiseResponse(BaseModel):
    """What was kept and what was dropped."""

    query: str
    passages: list[KeptPassage]
    kept: list[ScoredRange]
    dropped: list[ScoredRange]
    relevant: bool | None
    note: str | None
    fallback: str | None
    question_note: str | None


class RankedDocument(BaseModel):
    """A ranked document."""

    index: int
    relevance_score: float
    document: DocumentBody | None = None


class RankedText(BaseModel):
    """A ranked text in the shape of text-embeddings-inference."""

    index: int
    score: float
    text: str | None = None


class RerankResponse(BaseModel):
    """Ranked documents, best first."""

    id: str
    model: str
    results: list[RankedDocument]


class DifferenceBody(BaseModel):
    """A number, date, name or other words of a claim that the quotes do not have."""

    kind: str
    said: str
    stands: str
    start: int
    end: int
    source_start: int | None
    source_end: int | None


class ClaimBody(BaseModel):
    """A claim of the answer, its characters ``[start, end)``."""

    text: str
    start: int
    end: int
    supported: bool | None
    probability: float | None
    quotes: list[Quote]
    differences: list[DifferenceBody]
    kind: str
    reason: str


class CheckResponse(BaseModel):
    """The verdict on an answer, claim by claim."""

    passed: bool
    supported: bool | None
    answers_question: bool | None
    score: float | None
    kind: str
    reason: str
    judge: str
    threshold: float
    calls: int
    claims: list[ClaimBody]
    quotations: list[Quotation]


class Health(BaseModel):
    """``waiting`` counts requests, ``working`` threads; ``replicas`` are a remote scorer's."""

    status: str
    replicas: list[str]
    model: str
    version: str
    waiting: int
    working: int


class Problem(BaseModel):
    """What is wrong; it repeats nothing of the request."""

    detail: str


def to_passages(inputs: Sequence[str | InputPassage]) -> tuple[Passage, ...]:
    """Return the passages as the core's values; an id is by default the position."""
    passages = []
    for position, item in enumerate(inputs):
        if isinstance(item, str):
            item = InputPassage(text=item)
        passage_id = item.id
        if passage_id is None:
            passage_id = str(position)
        passage = Passage(item.text, passage_id, metadata=item.metadata)
        passages.append(passage)
    return tuple(passages)


def merge_small_rows(reply: dict[str, Any], max_rows: int) -> None:
    """Merge neighbouring ranges of a reply with far more of them than its text needs.

    So that a reply is not many times as long as its request. A merged range has its
    parts' highest score; ranges with different reasons are never merged.
    """
    row_count = len(reply["kept"]) + len(reply["dropped"])
    if row_count <= max_rows:
        return
    group_size = -(-row_count // max_rows)
    for name in ("kept", "dropped"):
        reply[name] = _merge_rows(reply[name], group_size)


def _merge_rows(rows: list[dict[str, Any]], group_size: int) -> list[dict[str, Any]]:
    merged_rows: list[dict[str, Any]] = []
    group_count = group_size
    for row in rows:
        previous_row = merged_rows[-1] if merged_rows else None
        is_full = group_count >= group_size
        if previous_row is None or is_full or not _is_continued(previous_row, row):
            merged_rows.append(dict(row))
            group_count = 1
            continue
        group_count += 1
        score = row["score"]
        previous_score = previous_row["score"]
        if score is not None and previous_score is not None:
            score = max(previous_score, score)
        elif score is None:
            score = previous_score
        previous_row["score"] = score
        previous_row["end"] = row["end"]
    return merged_rows


def _is_continued(row: dict[str, Any], next_row: dict[str, Any]) -> bool:
    if row["id"] != next_row["id"]:
        return False
    if row["end"] != next_row["start"]:
        return False
    return row.get("reason") == next_row.get("reason")
