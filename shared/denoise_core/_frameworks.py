"""What both adapters need: cheap copies of pydantic models, signatures noted once, END by another rule, and what a
refusal of JSON looks like.

Only the adapters import this, for pydantic comes with a framework and not with the core.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from denoise_core.errors import InputError

if TYPE_CHECKING:
    from denoise_core.end import ENDDenoiser
    from denoise_core.end.denoiser import OnIrrelevant
    from denoise_core.protocols import LLM, Scorer
    from denoise_core.s2a import S2ADenoiser
    from denoise_core.text.chunk import Chunker

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=BaseModel)

_new, _set = (
    object.__new__,
    object.__setattr__,
)  # as pydantic copies: a model's own would validate
_model_copy = BaseModel.model_copy
_copy = BaseModel.__copy__


def copy_model(model: M, update: Mapping[str, Any]) -> M:
    """What ``model.model_copy(update=update)`` gives for fields, in half of its time: a copy of a document is most
    of what a document costs in an adapter.
    """
    kind = type(model)
    if (
        kind.model_copy is not _model_copy
        or kind.__copy__ is not _copy
        or model.__pydantic_extra__ is not None
    ):
        return model.model_copy(
            update=update
        )  # a class with its own copying, or with more than its fields
    copied = _new(kind)
    _set(copied, "__dict__", {**model.__dict__, **update})
    _set(copied, "__pydantic_fields_set__", model.__pydantic_fields_set__.union(update))
    _set(copied, "__pydantic_extra__", None)
    private = getattr(model, "__pydantic_private__", None)
    _set(copied, "__pydantic_private__", private if private is None else dict(private))
    return copied


def cache_signature(function: F) -> F:
    """``function`` with its signature noted on it: both frameworks ask for it at every call, and `inspect` would
    make it out anew each time.
    """
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


class KeepSettings(NamedTuple):
    """How much END keeps, as the adapters' settings say it; None leaves it to the denoiser.

    ``risk`` and ``on_irrelevant`` are those of `ENDDenoiser`, ``max_tokens`` is a `TokenLimit`.
    """

    keep: Any = None
    threshold: float | None = None
    max_tokens: int | None = None
    risk: float | None = None
    on_irrelevant: OnIrrelevant | None = None

    def end_arguments(self) -> dict[str, Any]:
        """The arguments of `ENDDenoiser` that are set.

        Raises:
            InputError: Two settings say how much is kept, or a risk is given for a fixed amount.
        """
        amounts: dict[str, Any] = {}
        for name in ("keep", "threshold", "max_tokens"):
            value = getattr(self, name)
            if value is not None:
                amounts[name] = value
        if len(amounts) > 1:
            raise InputError(f"{' and '.join(amounts)}: give one of them")
        if self.risk is not None:
            if amounts and self.keep != "auto":
                raise InputError(
                    f"risk={self.risk}: goes with keep='auto', not with {', '.join(amounts)}"
                )
            amounts = {"keep": self.keep or "auto", "risk": self.risk}
        if "max_tokens" in amounts:
            from denoise_core.end.selection import TokenLimit

            amounts["keep"] = TokenLimit(amounts.pop("max_tokens"))
        if self.on_irrelevant is not None:
            amounts["on_irrelevant"] = self.on_irrelevant
        return amounts


def with_keep_rule(denoiser: Any, settings: KeepSettings) -> Any:
    """A copy of END with these settings, or itself without any.

    Raises:
        InputError: The denoiser has no such settings.
    """
    from denoise_core.end import ENDDenoiser

    arguments = settings.end_arguments()
    if not arguments:
        return denoiser
    is_end = isinstance(denoiser, ENDDenoiser)
    names = arguments.keys() if is_end or hasattr(denoiser, "on_irrelevant") else set()
    if not is_end and names != {"on_irrelevant"}:
        raise InputError(
            f"{', '.join(arguments)}: {type(denoiser).__name__} is built already and "
            "cannot take this here; give it to the denoiser itself"
        )
    other = copy.copy(denoiser)
    other.on_irrelevant = arguments.pop("on_irrelevant", denoiser.on_irrelevant)
    if arguments:
        other.rule = ENDDenoiser(denoiser.scorer, **arguments).rule
    return other


def bundled_denoiser(settings: KeepSettings, chunker: Any = "auto") -> ENDDenoiser:
    """END with the weights that ship, by these settings, or by its own rule where they say nothing."""
    from denoise_core.embedded import DefaultScorer, default_denoiser
    from denoise_core.end import ENDDenoiser

    arguments = settings.end_arguments()
    if "threshold" in arguments:
        return ENDDenoiser(DefaultScorer(), chunker=chunker, **arguments)
    return default_denoiser(chunker=chunker, **arguments)


def scorer_denoiser(
    scorer: Scorer, settings: KeepSettings, chunker: Any, top_n: int | None
) -> ENDDenoiser:
    """END with this scorer; if no setting says how much is kept, the best ``top_n``."""
    from denoise_core.end import ENDDenoiser

    arguments = settings.end_arguments()
    if arguments.keys() <= {"on_irrelevant"} and top_n is not None:
        arguments["keep"] = top_n
    return ENDDenoiser(scorer, chunker=chunker, **arguments)


def build_s2a_denoiser(
    llm: LLM, max_tokens: int | None, has_context: bool, **settings: Any
) -> S2ADenoiser:
    """System 2 Attention by the adapters' settings; None leaves one to `S2ADenoiser`."""
    from denoise_core.end.selection import TokenLimit
    from denoise_core.s2a import Options, S2ADenoiser

    arguments = {name: value for name, value in settings.items() if value is not None}
    if max_tokens is not None:
        arguments["keep"] = TokenLimit(max_tokens)
    arguments.setdefault("variant", "select")
    return S2ADenoiser(llm, options=Options(keep_context=has_context), **arguments)


def named_chunker(chunks: Literal["whole", "sentences"] | int) -> Chunker:
    """What END scores, by the adapters' setting; a number is the most characters of a chunk."""
    from denoise_core.text import chunk

    if isinstance(chunks, int):
        return chunk.sentence_chunker(chunks)
    return chunk.sentence_spans if chunks == "sentences" else chunk.no_chunking


def closest_name(name: str, known_names: Iterable[str]) -> str:
    """A hint for an error: the known name that a misspelt one is closest to, or ""."""
    matches = difflib.get_close_matches(name, list(known_names), 1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def rejects_json_mode(error: BaseException) -> bool:
    """Whether a model, its integration or its server says that it cannot be asked for JSON in this way."""
    if isinstance(error, (NotImplementedError, TypeError)):
        return True
    return getattr(error, "status_code", None) in (400, 404, 405, 415, 422, 501)
