"""LangChain's objects as the core's, and back: the only module that knows both worlds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from denoise_core import DenoiseResult, InputError, Message, Passage, Reply, Usage, unique_ids
from denoise_core.running.record import KEY, chunks_of, record_of
from denoise_core.types import Role

SCORE_KEY = "relevance_score"
"""Where LangChain's rerankers put a document's score; ours is read from and written to the same place."""

NOSTREAM = "nostream"
"""LangGraph leaves calls with this tag out of a user's token stream."""

_MESSAGE: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_ROLE: dict[str, Role] = {"system": "system", "human": "user", "ai": "assistant"}


def to_passages(documents: Sequence[Document]) -> tuple[Passage, ...]:
    """One passage per document, in order; a missing or repeated id is replaced by one of its own.

    Raises `InputError` for anything that is not a `Document` with a string as its text.
    """
    for position, document in enumerate(documents):
        if not isinstance(document, Document):
            raise InputError(
                f"documents[{position}]: expected a langchain_core Document, got {type(document).__name__}"
            )
    ids = unique_ids([d.id for d in documents])
    return tuple(
        Passage(d.page_content, id=i, score=_score_of(d), metadata=dict(d.metadata))
        for d, i in zip(documents, ids, strict=True)
    )


def to_documents(
    documents: Sequence[Document], passages: Sequence[Passage], result: DenoiseResult
) -> list[Document]:
    """The documents of a result: copies of the originals with the kept text, in the result's order.

    ``passages`` is what `to_passages` made of ``documents``. Id, type and metadata are the original's; the
    record goes to ``metadata["denoise"]`` (an earlier one moves into its ``previous``), a new score to
    ``metadata["relevance_score"]``.
    """
    original = {p.id: d for p, d in zip(passages, documents, strict=True)}
    given = {p.id: p for p in passages}
    chunks = chunks_of(result)
    return [
        _to_document(kept, original, given, record_of(kept, given, result, chunks)) for kept in result.passages
    ]


def evidence_documents(evidence: Sequence[Passage], retrieved: Sequence[Passage], question: str) -> list[Document]:
    """What a loop ended with as evidence, as documents; ``retrieved`` is what it was cut from."""
    given = {p.id: p for p in retrieved}
    result = DenoiseResult(question, tuple(evidence))
    return [_new_document(p, p.metadata, record_of(p, given, result)) for p in evidence]


def _to_document(
    kept: Passage, original: Mapping[str, Document], given: Mapping[str, Passage], record: dict[str, Any]
) -> Document:
    document = original.get(kept.id)
    if document is None:  # a joint rewrite: it has several originals, and keeps the metadata they agree on
        sources = [original[i] for i in record["spans"] if i in original]
        return _new_document(kept, _agreed([d.metadata for d in sources]), record)
    if KEY in document.metadata:
        record["previous"] = document.metadata[KEY]
    score = _score_entry(kept.score) if kept.score != given[kept.id].score else {}
    return document.model_copy(
        update={"page_content": kept.text, "metadata": {**document.metadata, **score, KEY: record}}
    )


def _new_document(kept: Passage, metadata: Mapping[str, Any], record: dict[str, Any]) -> Document:
    metadata = {**metadata, **_score_entry(kept.score), KEY: record}
    return Document(page_content=kept.text, id=kept.id, metadata=metadata)


def _agreed(all_metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = all_metadata or [{}]
    return {
        key: value
        for key, value in first.items()
        if key not in (KEY, SCORE_KEY) and all(key in m and m[key] == value for m in others)
    }


def _score_of(document: Document) -> float | None:
    score = document.metadata.get(SCORE_KEY)
    return float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None


def _score_entry(score: float | None) -> dict[str, float]:
    return {} if score is None else {SCORE_KEY: float(score)}


def internal_config() -> RunnableConfig:
    """The surrounding run's config for a call of ours inside it: its child in a trace, out of its stream."""
    config = ensure_config()
    config["tags"] = [*config.get("tags", []), NOSTREAM]
    config["metadata"] = {**config.get("metadata", {}), "lc_source": "denoise"}
    return config


class _Structuring(Protocol):
    """What of a chat model `ChatModelLLM` needs to ask for JSON."""

    def with_structured_output(self, schema: dict[str, Any], *, include_raw: bool) -> Runnable[Any, Any]: ...


class ChatModelLLM:
    """A chat model as the core's `LLM`.

    ``model`` is a chat model or any runnable that takes messages and gives one, so settings go in as usual:
    ``ChatModelLLM(model.bind(stop=["\n\n"], temperature=0, seed=1))``, ``model.with_retry()``. A call is
    traced under the run it is made in, is tagged ``nostream`` and never appears in a user's token stream.

    ``structured``: whether a reply that has a JSON schema is asked for through ``with_structured_output``;
    None does so when the model's profile says that it can. Otherwise, and when the model does not keep to
    the schema after all, the reply's text is handed on for the caller to parse.
    """

    def __init__(self, model: Runnable[Any, Any], *, structured: bool | None = None) -> None:
        if not isinstance(model, Runnable):
            raise InputError(
                f"expected a LangChain chat model, got {type(model).__name__}; "
                "a denoise_core LLM needs no ChatModelLLM around it"
            )
        if structured and not hasattr(model, "with_structured_output"):
            raise InputError(f"structured=True: {type(model).__name__} has no with_structured_output")
        self.model = model
        self.structured = _can_structure(model) if structured is None else structured

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _to_reply(self.model.invoke(to_messages(messages), internal_config()))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _to_reply(await self.model.ainvoke(to_messages(messages), internal_config()))

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """As `complete`; the reply's text is JSON by the schema where the model can be held to one."""
        if not self.structured:
            return self.complete(messages)
        return _to_json_reply(self._held_to(schema).invoke(to_messages(messages), internal_config()))

    async def acomplete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """`complete_json` for async."""
        if not self.structured:
            return await self.acomplete(messages)
        return _to_json_reply(await self._held_to(schema).ainvoke(to_messages(messages), internal_config()))

    def _held_to(self, schema: Mapping[str, Any]) -> Runnable[Any, Any]:
        titled = {"title": "reply", "description": "The reply.", **schema}  # LangChain needs a name for it
        return cast(_Structuring, self.model).with_structured_output(titled, include_raw=True)


def _can_structure(model: Runnable[Any, Any]) -> bool:
    profile = getattr(model, "profile", None)
    return bool(profile and profile.get("structured_output"))


class RetrieverAdapter:
    """A LangChain retriever as the core's `Retriever`.

    A document without an id gets one made from its text, so that the same passage found by two searches
    is known to be the same.
    """

    def __init__(self, retriever: Runnable[str, list[Document]]) -> None:
        if not isinstance(retriever, Runnable):
            raise InputError(f"expected a LangChain retriever, got {type(retriever).__name__}")
        self.retriever = retriever

    def retrieve(self, query: str) -> Sequence[Passage]:
        return to_passages([_with_id(d) for d in self.retriever.invoke(query, internal_config())])

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return to_passages([_with_id(d) for d in await self.retriever.ainvoke(query, internal_config())])


def _with_id(document: Document) -> Document:
    if document.id is not None:
        return document
    digest = hashlib.sha256(document.page_content.encode("utf-8", "surrogatepass")).hexdigest()
    return document.model_copy(update={"id": f"text-{digest[:16]}"})


def to_messages(messages: Sequence[Message]) -> list[BaseMessage]:
    """The core's messages as LangChain's."""
    return [_MESSAGE[m.role](content=m.content) for m in messages]


def from_messages(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """LangChain's messages as the core's: text only; tool calls and their results are left out."""
    return tuple(Message(_ROLE[m.type], str(m.text)) for m in messages if m.type in _ROLE)


def _to_reply(message: Any) -> Reply:
    if isinstance(message, str):  # a completion model, or a chain that ends in a parser
        return Reply(message)
    if not isinstance(message, BaseMessage):
        raise InputError(f"expected the model to answer with a message, got {type(message).__name__}")
    usage = getattr(message, "usage_metadata", None)
    tokens = Usage(usage["input_tokens"], usage["output_tokens"]) if usage else None
    return Reply(str(message.text), tokens)


def _to_json_reply(answer: Mapping[str, Any]) -> Reply:
    """The reply in LangChain's ``include_raw`` form: the parsed object as JSON, else the raw text."""
    raw = _to_reply(answer["raw"])
    return raw if answer["parsed"] is None else Reply(json.dumps(answer["parsed"], ensure_ascii=False), raw.usage)
