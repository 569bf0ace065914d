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
    field_values = {**model.__dict__, **update}
    set_fields = model.__pydantic_fields_set__.union(update)
    private_values = getattr(model, "__pydantic_private__", None)
    if private_values is not None:
        private_values = dict(private_values)
    _set(copied, "__dict__", field_values)
    _set(copied, "__pydantic_fields_set__", set_fields)
    _set(copied, "__pydantic_extra__", None)
    _set(copied, "__pydantic_private__", private_values)
    return copied


def cache_signature(function: F) -> F:
    """``function`` with its signature noted on it: both frameworks ask for it at every call, and `inspect` would
    make it out anew each time.
    """
    noted_signature = inspect.signature(function)
    function.__signature__ = noted_signature  # type: ignore[attr-defined]
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

            token_count = amounts.pop("max_tokens")
            amounts["keep"] = TokenLimit(token_count)
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
    has_setting = is_end or hasattr(denoiser, "on_irrelevant")
    allowed_names = arguments.keys() if has_setting else set()
    if not is_end and allowed_names != {"on_irrelevant"}:
        raise InputError(
            f"{', '.join(arguments)}: {type(denoiser).__name__} is built already and "
            "cannot take this here; give it to the denoiser itself"
        )
    other = copy.copy(denoiser)
    other.on_irrelevant = arguments.pop("on_irrelevant", denoiser.on_irrelevant)
    if arguments:
        new_denoiser = ENDDenoiser(denoiser.scorer, **arguments)
        other.rule = new_denoiser.rule
    return other


def bundled_denoiser(settings: KeepSettings, chunker: Any = "auto") -> ENDDenoiser:
    """END with the weights that ship, by these settings, or by its own rule where they say nothing."""
    from denoise_core.embedded import DefaultScorer, default_denoiser
    from denoise_core.end import ENDDenoiser

    arguments = settings.end_arguments()
    if "threshold" in arguments:
        default_scorer = DefaultScorer()
        return ENDDenoiser(default_scorer, chunker=chunker, **arguments)
    return default_denoiser(chunker=chunker, **arguments)


def scorer_denoiser(
    scorer: Scorer, settings: KeepSettings, chunker: Any, top_n: int | None
) -> ENDDenoiser:
    """END with this scorer; if no setting says how much is kept, the best ``top_n``."""
    from denoise_core.end import ENDDenoiser

    arguments = settings.end_arguments()
    has_amount = not arguments.keys() <= {"on_irrelevant"}
    if top_n is not None and not has_amount:
        arguments["keep"] = top_n
    return ENDDenoiser(scorer, chunker=chunker, **arguments)


def build_s2a_denoiser(
    llm: LLM, settings: KeepSettings, has_context: bool, **arguments: Any
) -> S2ADenoiser:
    """System 2 Attention by the adapters' settings; None leaves one to `S2ADenoiser`.

    Raises:
        InputError: For a setting of END.
    """
    from denoise_core.end.selection import TokenLimit
    from denoise_core.s2a import Options, S2ADenoiser

    for name in ("keep", "threshold", "risk"):
        value = getattr(settings, name)
        if value is not None:
            raise InputError(
                f"{name}={value!r}: a setting of END; a model decides itself what to "
                "keep, within max_tokens"
            )
    arguments["on_irrelevant"] = settings.on_irrelevant
    if settings.max_tokens is not None:
        arguments["keep"] = TokenLimit(settings.max_tokens)
    set_arguments = {name: item for name, item in arguments.items() if item is not None}
    options = Options(keep_context=has_context)
    return S2ADenoiser(llm, variant="select", options=options, **set_arguments)


def named_chunker(chunks: Literal["whole", "sentences"] | int) -> Chunker:
    """What END scores, by the adapters' setting; a number is the most characters of a chunk."""
    from denoise_core.text import chunk

    if isinstance(chunks, int):
        return chunk.sentence_chunker(chunks)
    if chunks == "sentences":
        return chunk.sentence_spans
    return chunk.no_chunking


def check_choice(setting: str, value: object, *choices: str) -> None:
    """Raise `InputError` unless the value of a setting is one of these."""
    if value not in choices:
        names = " or ".join(map(repr, choices))
        raise InputError(f"{setting}={value!r}: expected {names}")


def check_characters(setting: str, value: object, minimum: int = 0) -> None:
    """Raise `InputError` unless the value of a setting is a count of characters."""
    if not isinstance(value, int) or value < minimum:
        raise InputError(
            f"{setting}={value!r}: expected a number of characters, {minimum} or more"
        )


def check_names(
    setting: str,
    names: Iterable[str],
    known_names: Iterable[str],
    other_names: Mapping[str, str] | None = None,
) -> None:
    """Check the names that a user wrote.

    Args:
        setting: What the names are given to, as the user writes it.
        names: The names.
        known_names: Those that exist.
        other_names: What to write instead of a name that others use.

    Raises:
        InputError: There is no such name; says the closest one.
    """
    sorted_names = sorted(known_names)
    own_hints = other_names or {}
    unknown_names = set(names).difference(sorted_names)
    for name in sorted(unknown_names):
        hint = own_hints.get(name)
        close_names = difflib.get_close_matches(name, sorted_names, 1)
        if hint is None and close_names:
            hint = f"did you mean {close_names[0]!r}?"
        if not hint:
            listed_names = ", ".join(sorted_names) or "none"
            hint = f"there are: {listed_names}"
        raise InputError(f"{setting}: no {name!r}; {hint}")


def read_names(setting: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names of tools that a user lists.

    Raises:
        InputError: For one text, and for items that are none.
    """
    tool_names = frozenset(names)
    are_texts = all(isinstance(name, str) for name in tool_names)
    if isinstance(names, str) or not are_texts:
        raise InputError(f"{setting}={names!r}: expected a list of tools' names")
    return tool_names


def rejects_json_mode(error: BaseException) -> bool:
    """Whether a model, its integration or its server says that it cannot be asked for JSON in this way."""
    if isinstance(error, (NotImplementedError, TypeError)):
        return True
    status_code = getattr(error, "status_code", None)
    return status_code in (400, 404, 405, 415, 422, 501)
