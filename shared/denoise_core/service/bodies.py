"""What clients send and get, as the OpenAPI page shows it.

An unknown field is a mistake, but not in a rerank request: stock clients send fields that only their own servers
know.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
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


def _check_ids(inputs: list[InputPassage]) -> list[InputPassage]:
    passages = to_passages(inputs)
    distinct_ids = {passage.id for passage in passages}
    if len(distinct_ids) < len(inputs):
        raise PydanticCustomError("same_id", "two passages have the same id")
    return inputs


def _as_object(value: Any) -> Any:
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise PydanticCustomError("text_or_object", "neither text nor an object")
    return value


ValidUnicode = BeforeValidator(
    lambda value: replace_surrogates(value) if isinstance(value, str) else value
)
"""Half a character, which JSON can spell and no reply can hold, is U+FFFD."""
BoundedText = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), ValidUnicode]
Question = Annotated[str, Field(max_length=MAX_QUESTION_CHARACTERS), ValidUnicode]
BoundedName = Annotated[str, Field(max_length=1000), ValidUnicode]
PassageLimit = Field(max_length=MAX_PASSAGES, fail_fast=True)


class TextBody(BaseModel, ABC):
    """A request about texts."""

    @abstractmethod
    def texts(self) -> tuple[list[str], list[str]]:
        """The passages' texts, and all others that are read."""


class DocumentBody(BaseModel):
    """A document of a rerank request as an object."""

    text: BoundedText


TextOrDocument = Annotated[
    DocumentBody,
    BeforeValidator(_as_object, json_schema_input_type=str | DocumentBody),
]


class RerankRequest(TextBody):
    """Fields of Jina, Cohere and vLLM."""

    query: Question
    documents: Annotated[list[TextOrDocument], PassageLimit]
    model: BoundedName | None = None
    top_n: int | None = Field(default=None, ge=0)
    return_documents: bool = False

    def texts(self) -> tuple[list[str], list[str]]:
        """The documents, and the query."""
        return [document.text for document in self.documents], [self.query]


class InputPassage(BaseModel, extra="forbid"):
    """A passage; its id is its number in the list unless given."""

    text: BoundedText
    id: BoundedName | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(_check_finite)] = Field(
        default_factory=dict
    )


TextOrPassage = Annotated[
    InputPassage,
    BeforeValidator(_as_object, json_schema_input_type=str | InputPassage),
]
PassageList = Annotated[list[TextOrPassage], PassageLimit, AfterValidator(_check_ids)]


class DenoiseRequest(TextBody, extra="forbid"):
    """Passages to denoise for a query."""

    query: Question
    passages: PassageList

    def texts(self) -> tuple[list[str], list[str]]:
        """The passages, and the query."""
        return [passage.text for passage in self.passages], [self.query]


class CheckRequest(TextBody, extra="forbid"):
    """An answer to check with passages."""

    question: Question
    answer: BoundedText
    passages: PassageList

    def texts(self) -> tuple[list[str], list[str]]:
        """The passages, and the question and the answer."""
        passage_texts = [passage.text for passage in self.passages]
        return passage_texts, [self.question, self.answer]


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


def to_passages(inputs: Sequence[InputPassage]) -> tuple[Passage, ...]:
    """Return the passages as the core's values; an id is by default the position."""
    passages = []
    for position, item in enumerate(inputs):
        passage_id = str(position) if item.id is None else item.id
        passage = Passage(item.text, passage_id, metadata=item.metadata)
        passages.append(passage)
    return tuple(passages)


def merge_small_rows(reply: dict[str, Any], max_rows: int) -> None:
    """Merge neighbouring ranges of a reply with far more of them than its text needs.

    So that a reply is not many times as long as its request. A merged range has its
    parts' highest score; ranges with different reasons are never merged.
    """
    row_count = len(reply["kept"]) + len(reply["dropped"])
    group_size = -(-row_count // max_rows)
    if group_size > 1:
        for name in ("kept", "dropped"):
            reply[name] = _merge_rows(reply[name], group_size)


def _merge_rows(rows: list[dict[str, Any]], group_size: int) -> list[dict[str, Any]]:
    groups: list[list[dict[str, Any]]] = []
    for row in rows:
        if groups and len(groups[-1]) < group_size and _continues(groups[-1][-1], row):
            groups[-1].append(row)
        else:
            groups.append([row])
    merged_rows = []
    for group in groups:
        scores = [row["score"] for row in group if row["score"] is not None]
        merged_row = group[0] | {
            "end": group[-1]["end"],
            "score": max(scores, default=None),
        }
        merged_rows.append(merged_row)
    return merged_rows


def _continues(row: dict[str, Any], next_row: dict[str, Any]) -> bool:
    return (row["id"], row["end"], row.get("reason")) == (
        next_row["id"],
        next_row["start"],
        next_row.get("reason"),
    )
