"""What of an output is judged: its text, or the fields that claim something.

A structured answer holds more than claims: sources, a confidence, questions to ask next. Judged is what stands
under the names LangChain's own chains use for an answer, or what the user names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from denoise_core import InputError
from langchain_denoise.convert import places

_NAMING = ("sources", "citations", "references")
NO_CLAIMS = (*_NAMING, *places.QUESTION_KEYS, *places.EVIDENCE_KEYS, "confidence", "follow_up_questions")
"""Fields of a structured answer that are left out where all of it is judged."""

_RAW = {"raw", "parsed", "parsing_error"}  # what with_structured_output(include_raw=True) gives


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is judged of one output: ``text``, or ``fields`` by name or path. ``path`` leads to the text in the
    output, for another one to take its place."""

    text: str = ""
    fields: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()


def claimed(brought: Any, place: places.Place, claims: Sequence[str] | None = None) -> Claimed:
    """What of an output is judged.

    ``place`` is the user's key or function (which gets the very object the chain gave), ``claims`` the user's
    paths such as ``"findings[].text"``. With neither: a text or message; what stands under ``answer output result
    text``, at any depth; of an object without such a field every field but sources and the like.
    """
    if callable(place):
        text, where = places.answer_in(brought, place), Claimed()
        with suppress(InputError):  # only where it stands is asked, for a text that takes its place
            where = claimed(brought, None)
        return Claimed(text, path=where.path if where.text == text else ())
    output, path = _unwrapped(brought)
    if place is not None:
        output, path = places.under(output, place, "answer"), (*path, place)
    while _is_structured(output):
        state = places.as_state(output)
        if claims is not None:
            named = {name: _plain(value) for name in claims for value in (_under_path(state, name),)}
            return Claimed(fields=named, path=path)
        key = next((k for k in places.ANSWER_KEYS if k in state and _says(state[k])), None)
        if key is None:
            if any(k in state for k in places.ANSWER_KEYS) and isinstance(output, Mapping):
                break  # said as an error by what looks for the answer
            left = {k: _plain(v) for k, v in state.items() if k not in NO_CLAIMS}
            return Claimed(fields=left, path=path)
        output, path = state[key], (*path, key)
    if claims is not None:
        raise InputError(
            f"claims={list(claims)}: paths of a structured answer, and this is a {type(output).__name__}"
        )
    return Claimed(places.answer_in(output, None), path=path)


def with_text(brought: Any, text: str, path: Sequence[str]) -> Any:
    """The output with another text at the place where `claimed` found it; everything else stays."""
    return with_change(brought, lambda at: places.with_answer(at, text, None), path)


def with_change(brought: Any, change: Callable[[Any], Any], path: Sequence[str]) -> Any:
    """The output with what `claimed` found changed."""
    if not path:
        return change(brought)
    key, *rest = path
    changed = with_change(places.as_state(brought)[key], change, rest)
    if isinstance(brought, Mapping):
        return {**brought, key: changed}
    if isinstance(brought, BaseModel):
        return brought.model_copy(update={key: changed})
    return dataclasses.replace(brought, **{key: changed})


def _unwrapped(brought: Any) -> tuple[Any, tuple[str, ...]]:
    """The object within ``include_raw=True``, or the message where it could not be parsed."""
    if isinstance(brought, Mapping) and set(brought) == _RAW:
        key = "raw" if brought["parsed"] is None else "parsed"
        return brought[key], (key,)
    return brought, ()


def _is_structured(value: Any) -> bool:
    if isinstance(value, Mapping):
        return places.MESSAGES not in value or any(isinstance(value.get(k), str) for k in places.ANSWER_KEYS)
    if isinstance(value, BaseModel):
        return not isinstance(value, (BaseMessage, PromptValue, Document))
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _says(value: Any) -> bool:
    return isinstance(value, (str, BaseMessage)) or _is_structured(value)


def _under_path(state: Mapping[str, Any], path: str) -> Any:
    """What stands at ``findings[].text``: of each item of a list, where a part ends in ``[]``."""
    found: list[Any] = [state]
    several = False
    for part in path.split("."):
        key = part.removesuffix("[]")
        found = [places.under(f, key, f"claims: {path}") for f in found]
        if part.endswith("[]"):
            several = True
            if not all(isinstance(f, (list, tuple)) for f in found):
                raise InputError(f"claims={path!r}: there is no list at {part!r}")
            found = [item for f in found for item in f]
    return found if several else found[0]


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str)


def checked_claims(claims: Any) -> Any:
    """A list of paths. Raises `InputError` for a string, or what holds anything but strings."""
    if claims is None or (
        isinstance(claims, Sequence) and not isinstance(claims, str) and all(isinstance(c, str) for c in claims)
    ):
        return None if claims is None else list(claims)
    hint = f"; write claims=[{claims!r}]" if isinstance(claims, str) else ""
    raise InputError(f"claims={claims!r}: expected a list of fields, such as ['answer', 'findings[].text']{hint}")
