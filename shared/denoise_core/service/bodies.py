"""What clients send and what they get, as the OpenAPI page shows it.

An unknown field is a mistake, but not in a rerank request: stock clients send fields that only their own servers
know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from denoise_core.types import Passage, replace_surrogates

MOST = 10_000  # passages that any service takes; its own limit is lower
LONGEST = 16_000_000  # characters of a text, likewise


def _finite(metadata: dict[str, Any]) -> dict[str, Any]:
    json.dumps(metadata, allow_nan=False)  # a reply repeats it
    return metadata


def _distinct(given: list[str | Given]) -> list[str | Given]:
    if len({p.id for p in passages_of(given)}) < len(given):
        raise PydanticCustomError("same_id", "two passages have the same id")
    return given


Whole = BeforeValidator(
    lambda value: replace_surrogates(value) if isinstance(value, str) else value
)
"""Half a character, which JSON can spell and no reply can hold, is U+FFFD."""
Said = Annotated[str, Whole, Field(max_length=LONGEST)]
Name = Annotated[str, Whole, Field(max_length=1000)]
Many = Field(max_length=MOST, fail_fast=True)


class Text(BaseModel):
    """A document of a rerank request as an object."""

    text: Said


class Rerank(BaseModel):
    """The fields of Jina, Cohere, vLLM (``documents``) and text-embeddings-inference (``texts``)."""

    query: Said
    documents: Annotated[list[Said | Text], Many] | None = None
    texts: Annotated[list[Said], Many] | None = None
    model: Name | None = None
    top_n: int | None = Field(default=None, ge=0)
    return_documents: bool = False
    raw_scores: bool = False
    return_text: bool = False


class Given(BaseModel, extra="forbid"):
    """A passage; its id is its number in the list unless given."""

    text: Said
    id: Name | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(_finite)] = Field(
        default_factory=dict
    )


Passages = Annotated[list[Said | Given], Many, AfterValidator(_distinct)]


class Denoise(BaseModel, extra="forbid"):
    query: Said
    passages: Passages


class CheckAnswer(BaseModel, extra="forbid"):
    question: Said
    answer: Said
    passages: Passages


class Range(BaseModel):
    """Characters ``[start, end)`` of the passage ``id``."""

    id: str
    start: int
    end: int


class Scored(Range):
    """``reason`` is of what was dropped."""

    score: float | None
    reason: str = ""


class Left(BaseModel):
    """What is left of a passage, and where its text stood."""

    id: str
    text: str
    rewritten: bool
    spans: list[Range]
    metadata: dict[str, Any]


class Denoised(BaseModel):
    query: str
    passages: list[Left]
    kept: list[Scored]
    dropped: list[Scored]
    relevant: bool | None
    note: str | None
    fallback: str | None
    question_note: str | None


class Ranked(BaseModel):
    index: int
    relevance_score: float
    document: Text | None = None


class RankedText(BaseModel):
    """In the shape of text-embeddings-inference."""

    index: int
    score: float
    text: str | None = None


class Reranked(BaseModel):
    id: str
    model: str
    results: list[Ranked]


class SpanOf(BaseModel):
    passage_id: str
    start: int
    end: int


class Quoted(BaseModel):
    """Words of a passage, its characters ``[start, end)``, and whether they support or contradict the claim."""

    span: SpanOf
    text: str
    relation: str


class Differing(BaseModel):
    """A number, date, name or other words of a claim that the quotes do not say."""

    kind: str
    said: str
    stands: str
    start: int
    end: int
    source_start: int | None
    source_end: int | None


class Claimed(BaseModel):
    """A claim of the answer, its characters ``[start, end)``."""

    text: str
    start: int
    end: int
    supported: bool | None
    probability: float | None
    quotes: list[Quoted]
    differences: list[Differing]
    kind: str
    reason: str


class Checked(BaseModel):
    passed: bool
    supported: bool | None
    answers_question: bool | None
    score: float | None
    kind: str
    reason: str
    judge: str
    claims: list[Claimed]


class Health(BaseModel):
    """``waiting`` requests, ``working`` threads."""

    status: str
    model: str
    version: str
    waiting: int
    working: int


class Problem(BaseModel):
    """What is wrong, in words that repeat nothing of the request."""

    detail: str


def passages_of(given: Sequence[str | Given]) -> tuple[Passage, ...]:
    """As the core takes them."""
    read = [Given(text=p) if isinstance(p, str) else p for p in given]
    return tuple(
        Passage(p.text, str(n) if p.id is None else p.id, metadata=p.metadata)
        for n, p in enumerate(read)
    )
