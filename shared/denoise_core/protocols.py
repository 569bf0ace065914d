"""The verbs: what a framework adapter or a user supplies. Structural: there is nothing to inherit.

``expect_llm`` and its likes check one where it is handed over, so that a framework's own object, a class in
the place of an instance or a name in the place of a model is refused at construction, with what to write
instead, and not by an ``AttributeError`` in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        """The reply to a conversation, its first message first; what cannot be had raises the client's own
        error."""
        ...

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """The same without blocking the event loop."""
        ...


@runtime_checkable
class StructuredLLM(LLM, Protocol):
    """An `LLM` that can also be held to a JSON schema; its reply's text is the JSON."""

    def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """A reply whose text is JSON of ``schema``."""
        ...

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """The same without blocking the event loop."""
        ...


def with_schema(llm: LLM, schema: Mapping[str, Any] | None) -> LLM:
    """``llm`` answering by the schema if it can, else ``llm`` itself: its text is parsed. None is no schema."""
    return (
        _Held(llm, schema)
        if schema is not None and isinstance(llm, StructuredLLM)
        else llm
    )


class _Held:
    def __init__(self, llm: StructuredLLM, wanted: Mapping[str, Any]) -> None:
        self.llm = llm
        self.wanted = wanted

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self.llm.complete_json(messages, self.wanted)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await self.llm.acomplete_json(messages, self.wanted)


def supports_schema(llm: LLM) -> bool | None:
    """Whether ``llm`` can be held to a JSON schema; None while only asking tells.

    An adapter says so by its attribute ``structured``, which it sets after the first reply; a `StructuredLLM`
    without it can."""
    if not isinstance(llm, StructuredLLM):
        return False
    known = getattr(llm, "structured", True)
    return known if known is None else bool(known)


@runtime_checkable
class SupportsSampling(Protocol):
    """An LLM that can be told to sample: ``with_sampling(n)`` is the same model with a temperature above zero and another
    seed for each ``n``, so that asking again can bring another text."""

    def with_sampling(self, attempt: int) -> LLM: ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query, best first."""

    def retrieve(self, query: str) -> Sequence[Passage]:
        """Passages for a query, best first, ids unique; none found is an empty sequence and no error."""
        ...

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        """The same without blocking the event loop."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Relevance of texts to a query.

    A score does not depend on how texts are batched, padded or ordered. A *listwise* scorer (BM25, whose
    word weights come from the list itself) may depend on which texts are in the list, and says so.
    """

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each text, higher is better; float32 array of shape ``(len(texts),)``."""
        ...


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """Scores of one call, and what they cost.

    ``scores`` is float32 ``(n,)``; ``parts[i]`` is in how many windows text i was read, because it did not
    fit the model's window: its score is the best part's.
    """

    scores: NDArray[np.float32]
    window_counts: tuple[int, ...]

    @property
    def split_positions(self) -> tuple[int, ...]:
        """Positions of the texts that had to be cut."""
        return tuple(i for i, n in enumerate(self.window_counts) if n > 1)


def to_float32(found: object) -> NDArray[np.float32]:
    """What a scorer or model handed back, as float32. Raises `BadScores` for anything but numbers."""
    try:
        return np.asarray(found, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadScores(
            f"expected an array of numbers, got {type(found).__name__}"
        ) from error


@runtime_checkable
class AsyncScorer(Protocol):
    """A scorer that waits for a server, and can do so without a thread."""

    async def ascore(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]: ...


@runtime_checkable
class BatchScorer(Protocol):
    """A scorer that reads the texts of several questions together, with the scores of each by itself."""

    def score_batch(
        self, asked: Sequence[tuple[str, Sequence[str]]]
    ) -> list[ScoredTexts]: ...


@runtime_checkable
class WindowedScorer(Protocol):
    """A scorer that says which texts did not fit its window, as `ProbeScorer` does."""

    def score_with_windows(self, query: str, texts: Sequence[str]) -> ScoredTexts: ...


@runtime_checkable
class Denoiser(Protocol):
    """Takes the noise out of passages; the laws it keeps are in `denoise_core.testing.check_denoiser`."""

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """What of the passages is kept for the query; their ids are unique, and kept and dropped spans tile
        each text."""
        ...

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        """The same without blocking the event loop, with the same result."""
        ...


def expect_llm(value: object, name: str = "llm") -> LLM:
    """``value`` as it is. Raises `InputError` when it is no `LLM`, and says what to write instead."""
    return cast(
        LLM, _expect(value, name, "an LLM", ("complete", "acomplete"), _LLM_HINTS)
    )


def expect_retriever(value: object, name: str = "retriever") -> Retriever:
    """As `expect_llm`, for a `Retriever`."""
    return cast(
        Retriever,
        _expect(
            value, name, "a retriever", ("retrieve", "aretrieve"), _RETRIEVER_HINTS
        ),
    )


def expect_scorer(value: object, name: str = "scorer") -> Scorer:
    """As `expect_llm`, for a `Scorer`."""
    return cast(Scorer, _expect(value, name, "a scorer", ("score",), _SCORER_HINTS))


def expect_denoiser(value: object, name: str = "denoiser") -> Denoiser:
    """As `expect_llm`, for a `Denoiser`."""
    return cast(
        Denoiser,
        _expect(value, name, "a denoiser", ("denoise", "adenoise"), _DENOISER_HINTS),
    )


# What to write instead, by a sign of what was given: the package that its class or one of its bases comes from, or
# what kind of value it is, and behind a dot what it can do.
_Hints = dict[str, str]

_LLM_HINTS: _Hints = {
    "langchain": "langchain_denoise.ChatModelLLM({name})",
    "llama_index": "llamaindex_denoise.LlamaLLM({name})",
    "transformers": "denoise_core.local.generation.LocalLLM({name}, tokenizer)",
    "str": "a model, not its name, e.g. denoise_core.local.generation.LocalLLM(...) with a folder",
    "function": "denoise_core.testing.FunctionLLM({name}), or an object with both methods",
}
_RETRIEVER_HINTS: _Hints = {
    "langchain.as_retriever": "langchain_denoise.RetrieverAdapter({name}.as_retriever())",
    "langchain": "langchain_denoise.RetrieverAdapter({name})",
    "llama_index.as_retriever": "llamaindex_denoise.models.retriever.LlamaRetriever({name}.as_retriever())",
    "llama_index": "llamaindex_denoise.models.retriever.LlamaRetriever({name})",
    "list": "denoise_core.testing.ListRetriever({name}) for passages that are always found",
}
_SCORER_HINTS: _Hints = {
    "langchain.embed_documents": "denoise_core.scorers.EmbeddingScorer({name})",
    "llama_index.get_text_embedding_batch": "denoise_core.scorers.EmbeddingScorer({name})",
    ".predict": "denoise_core.scorers.CrossEncoderScorer({name})",
    ".encode": "denoise_core.scorers.EmbeddingScorer({name})",
    ".complete": "denoise_core.scorers.LLMDiscrim({name})",
    ".denoise": "the scorer inside it: this is a denoiser already",
    "str": "an object, not its name: denoise_core.scorers.BM25Scorer(), EmbeddingScorer({value!r}) ...",
    "function": "denoise_core.testing.FunctionScorer({name}) for a function of the query and one text",
}
_DENOISER_HINTS: _Hints = {
    "langchain": "the denoiser itself: LangChain parts go around it, e.g. DenoiseCompressor(denoiser=...)",
    "llama_index": "the denoiser itself: LlamaIndex parts go around it, e.g. DenoisePostprocessor(denoiser=...)",
    ".score": "denoise_core.end.ENDDenoiser({name})",
    ".complete": "denoise_core.s2a.S2ADenoiser({name})",
    "list": "denoise_core.Pipeline(*{name})",
}


def _expect(
    value: object, name: str, what: str, methods: tuple[str, ...], hints: _Hints
) -> object:
    home = _home(value)
    if (
        not isinstance(value, type)
        and home not in _FRAMEWORKS
        and all(_can(value, m) for m in methods)
    ):
        return value
    asked = " and ".join(f"{m}(...)" for m in methods)
    if isinstance(value, type):
        instead = f"an instance: {value.__name__}(...)"
    else:
        fitting = (hint for sign, hint in hints.items() if _fits(value, home, sign))
        instead = next(fitting, f"an object with {asked}").format(
            name=name, value=value
        )
    raise InputError(
        f"{name}: expected {what} ({asked}), got {_called(value)}; pass {instead}"
    )


_FRAMEWORKS = (
    "langchain",
    "llama_index",
)  # their objects have methods of the same names that take other things


def _home(value: object) -> str:
    """The framework that the value's class or one of its bases comes from, else the package of its class."""
    packages = [c.__module__.partition(".")[0] for c in type(value).__mro__]
    if any(
        p == "langchain" or (p.startswith("langchain_") and p != "langchain_denoise")
        for p in packages
    ):
        return "langchain"
    return next(
        (p for p in packages if p in ("llama_index", "transformers")), packages[0]
    )


def _fits(value: object, home: str, sign: str) -> bool:
    kind = (
        "function"
        if hasattr(value, "__code__")
        else type(value).__name__.replace("tuple", "list")
    )
    named, _, verb = sign.partition(".")
    return named in ("", home, kind) and (not verb or _can(value, verb))


def _can(value: object, method: str) -> bool:
    return callable(getattr(value, method, None))


def _called(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (str, int, float, bool)):
        return mask_secrets(repr(value)[:80])
    return type_name(value)
