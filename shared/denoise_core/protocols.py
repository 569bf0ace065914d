"""The interfaces that a framework adapter or a user implements; nothing to inherit.

`expect_llm` and the like check an object at construction: a framework's own object, a
class instead of an instance or a name instead of a model is refused there, with what to
pass instead, and not by an ``AttributeError`` in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import BadScores, InputError, mask_secrets
from denoise_core.result import DenoiseResult
from denoise_core.types import Message, Passage, Reply, type_name


@runtime_checkable
class LLM(Protocol):
    """A chat model. Both forms are safe to call from several threads or tasks at once."""

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the reply to a conversation, or raise the client's own error."""
        ...

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Do the same without blocking the event loop."""
        ...


@runtime_checkable
class StructuredLLM(LLM, Protocol):
    """An `LLM` that can also answer by a JSON schema; its reply's text is the JSON."""

    def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """Return a reply whose text is JSON of ``schema``."""
        ...

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """Do the same without blocking the event loop."""
        ...


def with_schema(llm: LLM, schema: Mapping[str, Any] | None) -> LLM:
    """Return an LLM that answers by the schema if it can, else ``llm`` itself."""
    if schema is None or not isinstance(llm, StructuredLLM):
        return llm
    return _SchemaLLM(llm, schema)


class _SchemaLLM:
    def __init__(self, llm: StructuredLLM, schema: Mapping[str, Any]) -> None:
        self.llm = llm
        self.schema = schema

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self.llm.complete_json(messages, self.schema)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await self.llm.acomplete_json(messages, self.schema)


def supports_schema(llm: LLM) -> bool | None:
    """Tell whether ``llm`` can answer by a JSON schema; None while it is unknown.

    An adapter's attribute ``structured`` says so, which it sets after the first reply;
    a `StructuredLLM` without that attribute can.
    """
    if not isinstance(llm, StructuredLLM):
        return False
    is_structured = getattr(llm, "structured", True)
    return None if is_structured is None else bool(is_structured)


@runtime_checkable
class SupportsSampling(Protocol):
    """An LLM that can sample: asking again can give another text."""

    def with_sampling(self, attempt: int) -> LLM:
        """Return the model with a temperature above 0 and a seed for ``attempt``."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query, best first."""

    def retrieve(self, query: str) -> Sequence[Passage]:
        """Return passages, best first, with unique ids; empty when nothing matches."""
        ...

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        """Do the same without blocking the event loop."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Relevance of texts to a query.

    A score does not depend on how texts are batched, padded or ordered. A *listwise*
    scorer (BM25, whose word weights come from the list itself) may depend on which
    texts are in the list, and says so.
    """

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the relevance of each text, higher is better; float32 ``(len(texts),)``."""
        ...


def to_float32(values: object) -> NDArray[np.float32]:
    """Return a scorer's result as float32; raises `BadScores` for anything but numbers."""
    try:
        return np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadScores(
            f"expected an array of numbers, got {type(values).__name__}"
        ) from error


@runtime_checkable
class AsyncScorer(Protocol):
    """A scorer that can wait for a server without a thread."""

    async def ascore(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """One score per text, float32 ``(len(texts),)``; higher is better."""
        ...


@runtime_checkable
class Denoiser(Protocol):
    """Removes what a query does not need; `testing.check_denoiser` has its laws."""

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Return what is kept for the query; kept and dropped spans tile each text.

        The passages' ids are unique.
        """
        ...

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """Do the same without blocking the event loop, with the same result."""
        ...


def expect_llm(value: object, name: str = "llm") -> LLM:
    """Return ``value``; raises `InputError`, with what to pass instead, if it is no LLM."""
    return cast(
        LLM, _expect(value, name, "an LLM", ("complete", "acomplete"), _LLM_HINTS)
    )


def expect_retriever(value: object, name: str = "retriever") -> Retriever:
    """Check as `expect_llm` does, for a `Retriever`."""
    return cast(
        Retriever,
        _expect(
            value, name, "a retriever", ("retrieve", "aretrieve"), _RETRIEVER_HINTS
        ),
    )


def expect_scorer(value: object, name: str = "scorer") -> Scorer:
    """Check as `expect_llm` does, for a `Scorer`."""
    return cast(Scorer, _expect(value, name, "a scorer", ("score",), _SCORER_HINTS))


def expect_denoiser(value: object, name: str = "denoiser") -> Denoiser:
    """Check as `expect_llm` does, for a `Denoiser`."""
    return cast(
        Denoiser,
        _expect(value, name, "a denoiser", ("denoise", "adenoise"), _DENOISER_HINTS),
    )


# What to pass instead, by a sign of the value: the package of its class or a base, or
# its type, and after a dot a method that it has.
_LLM_HINTS: dict[str, str] = {
    "langchain": "langchain_denoise.ChatModelLLM({name})",
    "llama_index": "llamaindex_denoise.LlamaLLM({name})",
    "transformers": "denoise_core.local.generation.LocalLLM({name}, tokenizer)",
    "str": "a model, not its name, e.g. denoise_core.local.generation.LocalLLM(...) with a folder",
    "function": "denoise_core.testing.FunctionLLM({name}), or an object with both methods",
}
_RETRIEVER_HINTS: dict[str, str] = {
    "langchain.as_retriever": "langchain_denoise.RetrieverAdapter({name}.as_retriever())",
    "langchain": "langchain_denoise.RetrieverAdapter({name})",
    "llama_index.as_retriever": "llamaindex_denoise.models.retriever.LlamaRetriever({name}.as_retriever())",
    "llama_index": "llamaindex_denoise.models.retriever.LlamaRetriever({name})",
    "list": "denoise_core.testing.ListRetriever({name}) for passages that are always found",
}
_SCORER_HINTS: dict[str, str] = {
    "langchain.embed_documents": "denoise_core.scorers.EmbeddingScorer({name})",
    "llama_index.get_text_embedding_batch": "denoise_core.scorers.EmbeddingScorer({name})",
    ".predict": "denoise_core.scorers.CrossEncoderScorer({name})",
    ".encode": "denoise_core.scorers.EmbeddingScorer({name})",
    ".complete": "denoise_core.scorers.LLMDiscrim({name})",
    ".denoise": "the scorer inside it: this is a denoiser already",
    "str": "an object, not its name: denoise_core.scorers.BM25Scorer(), EmbeddingScorer({value!r}) ...",
    "function": "denoise_core.testing.FunctionScorer({name}) for a function of the query and one text",
}
_DENOISER_HINTS: dict[str, str] = {
    "langchain": "the denoiser itself: LangChain parts go around it, e.g. DenoiseCompressor(denoiser=...)",
    "llama_index": "the denoiser itself: LlamaIndex parts go around it, e.g. DenoisePostprocessor(denoiser=...)",
    ".score": "denoise_core.end.ENDDenoiser({name})",
    ".complete": "denoise_core.s2a.S2ADenoiser({name})",
    "list": "denoise_core.Pipeline(*{name})",
}


def _expect(
    value: object,
    name: str,
    expected: str,
    methods: tuple[str, ...],
    hints: Mapping[str, str],
) -> object:
    package = _package_of(value)
    is_instance = not isinstance(value, type) and package not in _FRAMEWORKS
    if is_instance and all(_has_method(value, method) for method in methods):
        return value
    signatures = " and ".join(f"{method}(...)" for method in methods)
    advice = f"an object with {signatures}"
    if isinstance(value, type):
        advice = f"an instance: {value.__name__}(...)"
    else:
        fitting = [h for sign, h in hints.items() if _matches(value, package, sign)]
        if fitting:
            advice = fitting[0].format(name=name, value=value)
    raise InputError(
        f"{name}: expected {expected} ({signatures}), got {_describe(value)}; pass "
        f"{advice}"
    )


# Their objects have methods of the same names with other arguments.
_FRAMEWORKS = ("langchain", "llama_index")


def _package_of(value: object) -> str:
    """Return the framework of the value's class or bases, else its class's package."""
    packages = [c.__module__.partition(".")[0] for c in type(value).__mro__]
    for package in packages:
        is_integration = package.startswith("langchain_")
        if package == "langchain" or (
            is_integration and package != "langchain_denoise"
        ):
            return "langchain"
    for package in packages:
        if package in ("llama_index", "transformers"):
            return package
    return packages[0]


def _matches(value: object, package: str, sign: str) -> bool:
    """Tell whether a key of the hints, ``package-or-type.method``, fits the value."""
    type_label = type(value).__name__.replace("tuple", "list")
    if hasattr(value, "__code__"):
        type_label = "function"
    label, _, method = sign.partition(".")
    if label not in ("", package, type_label):
        return False
    return not method or _has_method(value, method)


def _has_method(value: object, method: str) -> bool:
    return callable(getattr(value, method, None))


def _describe(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (str, int, float, bool)):
        return mask_secrets(repr(value)[:80])
    return type_name(value)
