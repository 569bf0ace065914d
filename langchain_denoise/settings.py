"""What a compressor or retriever is configured with: plain values that say how to build its denoiser.

What can be plain JSON is, so that ``dumpd``, ``load`` and a config file rebuild it; what the user made (a model, a
scorer, a denoiser) is held as it is.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict, Unpack

from denoise_core import Denoiser, InputError
from denoise_core._frameworks import bundled_denoiser, with_keep_rule
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.runtime.record import RECORD_KEY, RecordDetail
from langchain_denoise.convert.documents import HEADER_KEYS, validate_header_keys

if TYPE_CHECKING:
    from langchain_core.cross_encoders import BaseCrossEncoder
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from denoise_core import LLM, Scorer
    from denoise_core.end.selection import KeepRule

    LLMLike: TypeAlias = Runnable[Any, BaseMessage] | Runnable[Any, str] | LLM | str
    ScorerLike: TypeAlias = Embeddings | BaseCrossEncoder | Scorer | None
    DenoiserLike: TypeAlias = Denoiser | None
    KeepLike: TypeAlias = float | int | Literal["auto"] | KeepRule | None
    RetrieverLike: TypeAlias = Runnable[str, list[Document]]
else:  # `as_llm`, `as_scorer` and their like look at what is given, and say what to type
    LLMLike = ScorerLike = DenoiserLike = KeepLike = RetrieverLike = Any

VariantName = Literal[
    "select",
    "remove",
    "auto",
    "default",
    "single",
    "keep_original",
    "not_instructed",
    "relevance",
]
DocumentOrder = Literal["input", "score"]
PositiveCount = Annotated[int, Field(ge=1)]
Chunking = Literal["whole", "sentences"] | PositiveCount


class DenoiseSettings(TypedDict, total=False):
    """The settings of `Denoise` as keywords, with those of whoever takes them."""

    keep: KeepLike
    threshold: float | None
    chunks: Chunking | None
    variant: VariantName
    context: bool
    top_n: int | None
    k: int | None
    order: DocumentOrder
    header_keys: Sequence[str]
    on_error: FailurePolicy
    on_empty: FailurePolicy
    record: RecordDetail
    max_concurrency: int | None
    name: str | None
    retriever: RetrieverLike
    tags: list[str] | None
    metadata: dict[str, Any] | None


@with_config(ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True))
class RequestSettings(TypedDict, total=False):
    """What one request may ask for."""

    keep: Any
    threshold: float | None
    variant: VariantName | None
    top_n: PositiveCount | None
    order: DocumentOrder | None


class Denoise(BaseModel):
    """How documents are denoised. Nothing set is END with the embedded default, offline.

    `DenoiseCompressor`, `DenoisingRetriever` and the middleware ``DenoiseToolResults`` take the same fields as
    keywords, or one of these as ``settings=``. A request may ask for some of them, as a dict or as one of these:
    ``config={"configurable": {"denoise": {"keep": 0.5, "top_n": 3}}}``; in agents also as ``denoise`` of the
    context.

    >>> from langchain_denoise import Denoise, DenoiseCompressor
    >>> strict = Denoise(keep=0.25, on_empty="raise")
    >>> DenoiseCompressor(settings=strict, keep=0.5).keep
    0.5
    """

    denoiser: DenoiserLike = None
    """Any `denoise_core.Denoiser`; None builds one from the fields below."""

    model: Any = None
    """System 2 Attention with this model: a chat model, a runnable, a name as ``"openai:..."``, a core LLM. With
    ``probe`` the local model that the probe reads: a name, a folder, a loaded one, or a loaded one with its
    tokenizer (what `local_model` gives)."""

    scorer: ScorerLike = None
    """END with this scorer: embeddings, a cross-encoder, or a core scorer."""

    probe: str | None = None
    """END with the probe in this folder."""

    keep: KeepLike = None
    """END: a share of the chunks below 1, or a number of them, or what else `ENDDenoiser` takes; None is the
    denoiser's own default."""

    threshold: float | None = None
    """END: every chunk with at least this score, in the scorer's unit, instead of ``keep``."""

    chunks: Chunking | None = None
    """END: what is scored: documents ``"whole"``, ``"sentences"``, or pieces of so many characters."""

    variant: VariantName | None = None
    """System 2 Attention: ``"select"`` and its like keep the document's own characters, the others rewrite."""

    context: bool = True
    """System 2 Attention: with a sentence that the model names comes what it cannot be read without, such as the
    sentence its pronoun points to or the head of its table; False keeps what was named and no more."""

    top_n: PositiveCount | None = None
    """So many documents come back, if so many came: the best by score, or the first where nothing is scored. A
    denoiser that scores brings back its best-scored documents to make the number full, unless ``threshold`` left
    them out."""

    order: DocumentOrder = "input"
    """``"input"`` leaves documents in the order they came; ``"score"`` puts the best first."""

    header_keys: Annotated[tuple[str, ...], BeforeValidator(validate_header_keys)] = (
        HEADER_KEYS
    )
    """Metadata that is read with a document's text, and is no part of what is kept."""

    on_error: FailurePolicy = "keep"
    """What an exception gives: the input (``"keep"``), nothing (``"drop"``), or the exception (``"raise"``)."""

    on_empty: FailurePolicy = "keep"
    """The same for a result that keeps nothing; ``"raise"`` is `denoise_core.EmptyResult`."""

    record: RecordDetail = "spans"
    """What stands in the metadata under ``denoise_...``: ``"spans"`` (id, ranges, score, fallback; at most 2 KB),
    ``"full"`` (every scored chunk too, as JSON), ``"none"``."""

    max_concurrency: PositiveCount | None = None
    """At most this many model calls of one denoising at once; None leaves it to the denoiser's own bound."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @classmethod
    def from_llm(cls, model: LLMLike, **settings: Unpack[DenoiseSettings]) -> Self:
        """System 2 Attention with a chat model, a runnable, a name, or a core LLM. ``context=False`` keeps the
        sentences that the model names and none beside them."""
        return cls._made({"model": model, "variant": "select"}, settings)

    @classmethod
    def from_embeddings(
        cls, embeddings: Embeddings, **settings: Unpack[DenoiseSettings]
    ) -> Self:
        """END by the cosine of ``embeddings``: the best 20 documents, or what ``keep`` or ``threshold`` says."""
        keep = 20 if settings.get("threshold") is None else None
        return cls._made({"scorer": embeddings, "keep": keep}, settings)

    @classmethod
    def from_cross_encoder(
        cls, model: BaseCrossEncoder, **settings: Unpack[DenoiseSettings]
    ) -> Self:
        """END by a cross-encoder: the best ``top_n`` documents, 3 unless it says otherwise, best first. It reads
        the text alone; ``header_keys=("title",)`` shows it titles too."""
        return cls._made(
            {"scorer": model, "top_n": 3, "order": "score", "header_keys": ()}, settings
        )

    @classmethod
    def from_probe(
        cls, folder: str | Path, model: Any = None, **settings: Unpack[DenoiseSettings]
    ) -> Self:
        """END with the probe in ``folder``; ``model`` as in `denoise_core.end.ProbeScorer`, or None for the one
        that the probe's card names. Loaded at the first use."""
        return cls._made({"probe": str(folder), "model": model}, settings)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        model: Any = None,
        *,
        llm: LLM | None = None,
        **settings: Unpack[DenoiseSettings],
    ) -> Self:
        """What ``rag-denoise evaluate`` recommended (its ``denoise.json``), or a folder of ``rag-denoise fit``.

        ``model`` is a probe's and ``llm`` a core LLM, such as ``ChatModelLLM(model)``, where the setting asks one.
        """
        from denoise_core import load_denoiser

        return cls._made({"denoiser": load_denoiser(path, model, llm=llm)}, settings)

    @classmethod
    def _made(cls, chosen: dict[str, Any], settings: Mapping[str, Any]) -> Self:
        return cls(**{**chosen, **settings})

    @model_validator(mode="before")
    @classmethod
    def _with_settings_below(cls, values: Any) -> Any:
        """The fields given as keywords over those of ``settings``. Raises `InputError` for an unknown name."""
        if not isinstance(values, Mapping):
            return values
        given = dict(values)
        below = given.pop("settings", None) if "settings" in cls.model_fields else None
        known = {
            *cls.model_fields,
            *(f.alias for f in cls.model_fields.values() if f.alias),
        }
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(f"{name}: {cls.__name__} has no such setting{hint}")
        inherited = _set_in(below)
        if {"keep", "threshold"} & set(given):  # two ways of saying one thing
            inherited = {
                n: v for n, v in inherited.items() if n not in ("keep", "threshold")
            }
        return {**inherited, **given}

    @field_validator("probe")
    @classmethod
    def _is_there(cls, probe: str | None) -> str | None:
        if probe is not None and not Path(probe).is_dir():
            raise InputError(
                f"probe={probe!r}: there is no such folder; Probe.save(folder) writes one"
            )
        return probe

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        s2a = self.model is not None and self.probe is None
        if self.denoiser is not None:
            require_denoiser(self.denoiser)
            self._without(
                "not beside denoiser=, which is built already",
                "model",
                "scorer",
                "probe",
                "chunks",
            )
        elif not s2a:
            self._without(
                "a setting of System 2 Attention, which needs model=", "variant"
            )
        if s2a:
            self._without(
                "a setting of END; with model= there is variant=",
                "keep",
                "threshold",
                "chunks",
            )
        elif not self.context:
            raise InputError(
                "context=False: a setting of System 2 Attention, which needs model="
            )
        if self.model is not None or self.probe is not None:
            self._without("give a scorer, a model or a probe, not several", "scorer")
        if self.keep is not None and self.threshold is not None:
            raise InputError(
                f"keep={self.keep!r} and threshold={self.threshold!r}: give one of the two"
            )
        if self.probe is None:
            self.denoiser_for(
                {}
            )  # wrong settings raise here, and not in the middle of a run
        return self

    def _without(self, why: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"{name}: {why}")

    def denoiser_for(self, asked: Mapping[str, Any]) -> Denoiser:
        """The denoiser with what this request asks for. Raises `InputError` for what does not go with it."""
        keep, threshold = (
            asked.get("keep", self.keep),
            asked.get("threshold", self.threshold),
        )
        if "keep" in asked and "threshold" not in asked:
            threshold = None
        if "threshold" in asked and "keep" not in asked:
            keep = None
        variant = asked.get("variant", self.variant)
        if self.denoiser is not None:
            return _changed(self.denoiser, keep, threshold, variant)
        if self.model is not None and self.probe is None:
            return self._s2a(variant)
        if variant is not None:
            raise InputError(
                f"variant={variant!r}: a setting of System 2 Attention, and this is END"
            )
        return self._end(keep, threshold)

    def _s2a(self, variant: str | None) -> Denoiser:
        from denoise_core.s2a import Options, S2ADenoiser
        from langchain_denoise.models.chat_llm import as_llm

        chosen: Any = variant or "select"
        bound: dict[str, Any] = (
            {}
            if self.max_concurrency is None
            else {"max_concurrency": self.max_concurrency}
        )
        options = Options(keep_context=self.context)
        return S2ADenoiser(
            as_llm(self.model),
            variant=chosen,
            options=options,
            on_error=self.on_error,
            **bound,
        )

    def _end(self, keep: Any, threshold: float | None) -> Denoiser:
        from denoise_core.end import ENDDenoiser
        from denoise_core.text import chunk as chunking

        own = self.scorer is None and self.probe is None
        chunker: Any = "auto" if own and threshold is None else chunking.no_chunking
        if self.chunks is not None:
            named = {
                "whole": chunking.no_chunking,
                "sentences": chunking.sentence_spans,
            }
            chunker = (
                named[self.chunks]
                if isinstance(self.chunks, str)
                else chunking.sentence_chunker(self.chunks)
            )
        if own:
            return bundled_denoiser(keep, threshold, chunker)
        from langchain_denoise.models.scoring import FolderProbe, as_scorer

        scorer = (
            as_scorer(self.scorer)
            if self.probe is None
            else FolderProbe(self.probe, self.model)
        )
        if keep is None and threshold is None and self.top_n is not None:
            keep = self.top_n
        return ENDDenoiser(scorer, keep=keep, threshold=threshold, chunker=chunker)


def _set_in(settings: Any) -> dict[str, Any]:
    """What is set in a settings object, or in its JSON."""
    if settings is None:
        return {}
    if not isinstance(settings, (Denoise, Mapping)):
        raise InputError(
            f"settings: expected Denoise(...) or a dict of its fields, got a {type(settings).__name__}"
        )
    made = settings if isinstance(settings, Denoise) else Denoise(**settings)
    return {
        name: getattr(made, name)
        for name in made.model_fields_set & set(Denoise.model_fields)
    }


def require_denoiser(denoiser: Any) -> None:
    """Raises `InputError` that says what to write for anything that is no denoiser."""
    if isinstance(denoiser, Denoiser) and not isinstance(denoiser, type):
        return
    kind = (
        f"the class {denoiser.__name__}"
        if isinstance(denoiser, type)
        else f"a {type(denoiser).__name__}"
    )
    instead = "from_llm(...) for a chat model, from_embeddings(...) for embeddings"
    raise InputError(
        f"denoiser: expected an object with denoise and adenoise, got {kind}; {instead}"
    )


def _changed(
    denoiser: Any, keep: Any, threshold: float | None, variant: str | None
) -> Denoiser:
    """A copy of END with another rule or of S2A with another variant; itself when nothing is asked."""
    if keep is not None or threshold is not None:
        denoiser = with_keep_rule(denoiser, keep, threshold)
    if variant is not None:
        from denoise_core.s2a import S2ADenoiser

        if not isinstance(denoiser, S2ADenoiser):
            raise InputError(f"variant: {type(denoiser).__name__} has no such setting")
        denoiser = copy.copy(denoiser)
        denoiser.variant = variant
    result: Denoiser = denoiser
    return result


def config_with_request(asked: Any) -> RunnableConfig | None:
    """A config that asks for these settings, beside what the surrounding run's has; None to ask for none."""
    if asked is None:
        return None
    return {
        "configurable": {**ensure_config().get("configurable", {}), RECORD_KEY: asked}
    }


def request_settings(config: RunnableConfig | None) -> dict[str, Any]:
    """What one request asks for: ``config={"configurable": {"denoise": {"keep": 0.5, "top_n": 3}}}``.

    Raises `InputError` for a setting that cannot be chosen so.
    """
    found = ((config or {}).get("configurable") or {}).get(RECORD_KEY)
    if found is None:
        return {}
    try:
        asked = dict(
            _request().validate_python(
                _set_in(found) if isinstance(found, Denoise) else found
            )
        )
    except ValidationError as error:
        wrong = error.errors()[0]
        where = "".join(f": {name}" for name in wrong["loc"][:1])
        raise InputError(
            f"configurable[{RECORD_KEY!r}]{where}={wrong['input']!r}: {wrong['msg']}"
        ) from error
    return asked


@cache
def _request() -> TypeAdapter[RequestSettings]:
    return TypeAdapter(RequestSettings)
