"""What clients send, as the OpenAPI page shows it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from denoise_core.types import Passage, well_formed

Said = Annotated[str, AfterValidator(well_formed)]
"""A text; half a character, which JSON can spell and no reply can hold, is U+FFFD."""


class Text(BaseModel):
    """A document of a rerank request as an object."""

    text: Said


class Rerank(BaseModel):
    """The fields of Jina, Cohere, vLLM (``documents``) and text-embeddings-inference (``texts``); others are
    passed over, as these servers do."""

    model_config = ConfigDict(extra="ignore")

    query: Said
    documents: list[Said | Text] | None = None
    texts: list[Said] | None = None
    model: str | None = None
    top_n: int | None = Field(default=None, ge=0)
    return_documents: bool = False
    raw_scores: bool = False
    return_text: bool = False


class Given(BaseModel):
    """A passage; its id is its number in the list unless given."""

    model_config = ConfigDict(extra="forbid")

    text: Said
    id: Said | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class Denoise(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Said
    passages: list[Said | Given]


class CheckAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    question: Said
    answer: Said
    passages: list[Said | Given]


def passages_of(given: list[str | Given]) -> tuple[Passage, ...]:
    """As the core takes them."""
    read = [Given(text=p) if isinstance(p, str) else p for p in given]
    return tuple(
        Passage(p.text, str(n) if p.id is None else p.id, metadata=p.metadata) for n, p in enumerate(read)
    )
