"""The settings of a compressor or retriever: plain values that say how to denoise.

Values are plain JSON where possible, so that ``dumpd``, ``load`` and a config file can
rebuild them. Objects that the user built (a model, a scorer, a denoiser) are stored as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from langchain_core.runnables import RunnableConfig
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict

from denoise_core import Denoiser, InputError
from denoise_core._frameworks import (
    KeepSettings,
    build_s2a_denoiser,
    bundled_denoiser,
    check_names,
    named_chunker,
    scorer_denoiser,
    with_keep_rule,
)
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.runtime.record import RECORD_KEY
from langchain_denoise.convert.documents import HEADER_KEYS, describe_value
from langchain_denoise.observe import Fields, Record

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
else:
    # pydantic checks none of these: `as_llm`, `as_scorer` and the like raise errors that
    # say what to type instead.
    LLMLike = ScorerLike = DenoiserLike = KeepLike = RetrieverLike = Any

DocumentOrder = Literal["input", "score"]
IrrelevantPolicy = Literal["keep", "drop"]
PositiveCount = Annotated[int, Field(ge=1)]


AMOUNT_SETTINGS = frozenset(("keep", "threshold", "max_tokens"))
"""Settings of which one says how much is kept."""


@with_config(ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True))
class RequestSettings(TypedDict, total=False):
    """The settings that one request may override."""

    keep: Any
    threshold: float | None
    max_tokens: PositiveCount | None
    risk: float | None
    on_irrelevant: IrrelevantPolicy | None
    top_n: PositiveCount | None
    order: DocumentOrder | None


class BuiltDenoiser:
    """The denoiser of some settings, with their values; a copy of it is empty.

    It is built once, because a denoiser learns what its model's replies look like.
    """

    def __init__(self) -> None:
        # Replaced as one: threads of two copies with other settings share this object.
        self._values_and_denoiser: tuple[list[Any], Any] = ([], None)

    def denoiser_for(self, values: list[Any], build: Callable[[], Any]) -> Any:
        """The denoiser that was built for these values, or a new one for other values."""
        built_values, denoiser = self._values_and_denoiser
        if values != built_values:
            denoiser = build()
            self._values_and_denoiser = (values, denoiser)
        return denoiser

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BuiltDenoiser)  # settings are equal by their values

    def __reduce__(self) -> Any:
        return BuiltDenoiser, ()


class Denoise(BaseModel):
    """How documents are denoised. Without any setting: END with the embedded default.

    `DenoiseCompressor`, `DenoisingRetriever` and the middleware ``DenoiseToolResults``
    take these fields as keywords. A request may override some of them with a dict:
    ``config={"configurable": {"denoise": {"keep": 0.5, "top_n": 3}}}``, agents too.
    """

    denoiser: DenoiserLike = None
    """Any `denoise_core.Denoiser`; None builds one from the fields below."""

    model: LLMLike | None = None
    """System 2 Attention with this model: a chat model, a runnable, a name as
    ``"openai:..."``, a core LLM."""

    scorer: ScorerLike = None
    """END with this scorer: embeddings, a cross-encoder, or a core scorer."""

    keep: KeepLike = None
    """END: a fraction of the chunks below 1, or a number of them, or what else
    `ENDDenoiser` takes; None is the denoiser's own default. A chunk may be of several
    documents of one source; ``top_n`` counts documents."""

    threshold: float | None = None
    """END: every chunk with at least this score, in the scorer's unit, instead of
    ``keep``."""

    max_tokens: PositiveCount | None = None
    """At most about so many tokens, instead of ``keep``: the best chunks that fit, and of
    System 2 Attention (``"select"``) the most important ones."""

    risk: float | None = None
    """END with ``keep="auto"``: the share of relevant chunks that may be lost, such as
    0.05; None is the denoiser's own."""

    on_irrelevant: IrrelevantPolicy | None = None
    """``"drop"`` returns no document if none seems relevant, or if the model finds no answer
    (``denoise_relevant`` is False), and logs that; None and ``"keep"`` return the best
    ones."""

    top_n: PositiveCount | None = None
    """Return at most this many documents: the best by score, or the first where nothing
    is scored. A denoiser that scores adds its best-scored dropped documents to reach the
    number, unless ``threshold`` left them out."""

    order: DocumentOrder = "input"
    """``"input"`` leaves documents in their order; ``"score"`` puts the best first."""

    header_keys: tuple[str, ...] = HEADER_KEYS
    """Metadata that is read with a document's text, but never part of the kept text."""

    on_error: FailurePolicy = "keep"
    """After an exception: return the input (``"keep"``), nothing (``"drop"``), or raise
    the exception (``"raise"``)."""

    on_empty: FailurePolicy = "keep"
    """The same for a result that keeps nothing; ``"raise"`` raises
    `denoise_core.EmptyResult`."""

    shadow: bool = False
    """Return what came in, unchanged, and only count what would be dropped: for a
    `ShadowReport` among the callbacks. No failure of the denoiser raises then."""

    _built: BuiltDenoiser = PrivateAttr(default_factory=BuiltDenoiser)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, values: Any) -> Any:
        """Reject names of no setting, saying the closest one."""
        if not isinstance(values, Mapping):
            return values
        aliases = {field.alias or name for name, field in cls.model_fields.items()}
        check_names(cls.__name__, values, aliases.union(cls.model_fields))
        return values

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        is_denoiser = isinstance(self.denoiser, Denoiser | None)
        if isinstance(self.denoiser, type) or not is_denoiser:
            raise InputError(
                "denoiser: expected an object with denoise and adenoise, got "
                f"{describe_value(self.denoiser)}; model= takes a chat model, scorer= "
                "embeddings"
            )
        sources = ("denoiser", "model", "scorer")
        set_sources = [name for name in sources if getattr(self, name) is not None]
        if len(set_sources) > 1:
            raise InputError(f"{' and '.join(set_sources)}: give one of them")
        # Wrong settings raise here, and not in the middle of a run.
        self.denoiser_for({})
        return self

    def denoiser_for(self, overrides: Fields) -> Denoiser:
        """The denoiser for one request.

        Args:
            overrides: The settings of the request, as `request_settings` returns them.

        Raises:
            InputError: For a setting that does not fit the denoiser.
        """
        values = [getattr(self, name) for name in Denoise.model_fields]
        built = self._built.denoiser_for(values, lambda: self._build_denoiser({}))
        denoiser: Denoiser = built
        if not overrides.keys().isdisjoint(KeepSettings._fields):
            request_denoiser = self._build_denoiser(overrides)
            if self.model is not None:
                # What was learned of the model's replies holds for every request.
                request_denoiser.llm = built.llm
                request_denoiser.record = built.record
            denoiser = request_denoiser
        return denoiser

    def _build_denoiser(self, overrides: Fields) -> Any:
        settings = self._keep_settings(overrides)
        if self.denoiser is not None:
            return with_keep_rule(self.denoiser, settings)
        if self.model is None:
            return self._build_end(settings)
        from langchain_denoise.models.chat_llm import as_llm

        return build_s2a_denoiser(
            as_llm(self.model), settings, has_context=True, on_error=self.on_error
        )

    def _keep_settings(self, overrides: Fields) -> KeepSettings:
        """How much is kept: one way of a request replaces those of the settings."""
        values = {}
        replaces_amount = not AMOUNT_SETTINGS.isdisjoint(overrides)
        for name in KeepSettings._fields:
            is_replaced = replaces_amount and name != "on_irrelevant"
            own_value = None if is_replaced else getattr(self, name)
            values[name] = overrides.get(name, own_value)
        return KeepSettings(**values)

    def _build_end(self, settings: KeepSettings) -> Denoiser:
        whole_documents = named_chunker("whole")
        if self.scorer is None:
            by_structure = settings.threshold is None
            return bundled_denoiser(
                settings, "auto" if by_structure else whole_documents
            )
        from langchain_denoise.models.scoring import as_scorer

        scorer = as_scorer(self.scorer)
        return scorer_denoiser(scorer, settings, whole_documents, self.top_n)


def request_settings(config: RunnableConfig) -> Record:
    """The settings of one request, from ``config["configurable"]["denoise"]``.

    Raises:
        InputError: For a setting that a request cannot override.
    """
    request = (config.get("configurable") or {}).get(RECORD_KEY)
    if request is None:
        return {}
    try:
        return dict(_request_type().validate_python(request))
    except ValidationError as error:
        problem = error.errors()[0]
        field_names = "".join(f": {name}" for name in problem["loc"][:1])
        hint = ""
        if problem["type"] == "extra_forbidden":
            hint = f"; it takes {', '.join(RequestSettings.__annotations__)}"
        raise InputError(
            f"configurable[{RECORD_KEY!r}]{field_names}={problem['input']!r}: "
            f"{problem['msg']}{hint}"
        ) from error


@cache
def _request_type() -> TypeAdapter[RequestSettings]:
    # Built at the first request: building it costs more than the import of this module.
    return TypeAdapter(RequestSettings)
