"""What both adapters need: cheap copies of pydantic models, signatures noted once, END by another rule, and what a
refusal of JSON looks like.

Only the adapters import this, for pydantic comes with a framework and not with the core.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from denoise_core.errors import InputError

if TYPE_CHECKING:
    from denoise_core.end import ENDDenoiser

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


def with_keep_rule(denoiser: Any, keep: Any, threshold: float | None) -> Any:
    """A copy of END that keeps by another rule. Raises `InputError` for a denoiser without one."""
    from denoise_core.end import ENDDenoiser

    if not isinstance(denoiser, ENDDenoiser):
        raise InputError(
            f"keep, threshold: settings of END; {type(denoiser).__name__} has no such setting"
        )
    other = copy.copy(denoiser)
    other.rule = ENDDenoiser(denoiser.scorer, keep=keep, threshold=threshold).rule
    return other


def bundled_denoiser(
    keep: Any, threshold: float | None, chunker: Any = "auto"
) -> ENDDenoiser:
    """END with the weights that ship, by ``keep``, by ``threshold``, or by its own rule where neither is given."""
    from denoise_core.embedded import DefaultScorer, default_denoiser
    from denoise_core.end import ENDDenoiser

    if threshold is None:
        return default_denoiser(
            **({} if keep is None else {"keep": keep}), chunker=chunker
        )
    return ENDDenoiser(DefaultScorer(), keep=keep, threshold=threshold, chunker=chunker)


def rejects_json_mode(error: BaseException) -> bool:
    """Whether a model, its integration or its server says that it cannot be asked for JSON in this way."""
    if isinstance(error, (NotImplementedError, TypeError)):
        return True
    return getattr(error, "status_code", None) in (400, 404, 405, 415, 422, 501)
