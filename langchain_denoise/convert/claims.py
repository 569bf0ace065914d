"""What of an output is judged: its text, or the fields that claim something; and what it cites, found in the
evidence.

A structured answer holds more than claims: sources, a confidence, questions to ask next. Judged is what stands
under the names LangChain's own chains use for an answer, or what the user names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from denoise_core import InputError, Passage
from langchain_denoise.convert import chain_values

SOURCE_KEYS = ("sources", "citations", "references")
"""Fields that name documents: resolved, and not judged."""

NON_CLAIM_FIELDS = (
    *SOURCE_KEYS,
    *chain_values.QUESTION_KEYS,
    *chain_values.EVIDENCE_KEYS,
    "confidence",
    "follow_up_questions",
)
"""Fields of a structured answer that are left out where all of it is judged."""

_RAW = {
    "raw",
    "parsed",
    "parsing_error",
}  # what with_structured_output(include_raw=True) gives


@dataclass(frozen=True, slots=True)
class ClaimedOutput:
    """What is judged of one output: ``text``, or ``fields`` by name or path. ``path`` leads to the text in the
    output, for another one to take its place; ``cited`` is what the output names as its sources."""

    text: str = ""
    fields: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()
    sources: tuple[Any, ...] = ()


def extract_claims(
    brought: Any, place: chain_values.ValueSelector, claims: Sequence[str] | None = None
) -> ClaimedOutput:
    """What of an output is judged.

    ``place`` is the user's key or function (which gets the very object the chain gave), ``claims`` the user's
    paths such as ``"findings[].text"``. With neither: a text or message; what stands under ``answer output result
    text``, at any depth; of an object without such a field every field but sources and the like.
    """
    if callable(place):
        text, where = chain_values.extract_answer(brought, place), ClaimedOutput()
        with suppress(
            InputError
        ):  # only where it stands is asked, for a text that takes its place
            where = extract_claims(brought, None)
        return ClaimedOutput(
            text, path=where.path if where.text == text else (), sources=where.sources
        )
    output, path = _unwrapped(brought)
    cited: tuple[Any, ...] = ()
    if place is not None:
        output, path = (
            chain_values.value_under_key(output, place, "answer"),
            (*path, place),
        )
    while _is_structured(output):
        state = chain_values.as_mapping(output)
        cited = _cited(output) or cited
        if claims is not None:
            named = {
                name: _plain(value)
                for name in claims
                for value in (_under_path(state, name),)
            }
            return ClaimedOutput(fields=named, path=path, sources=cited)
        key = next(
            (k for k in chain_values.ANSWER_KEYS if k in state and _says(state[k])),
            None,
        )
        if key is None:
            if any(k in state for k in chain_values.ANSWER_KEYS) and isinstance(
                output, Mapping
            ):
                break  # said as an error by what looks for the answer
            left = {k: _plain(v) for k, v in state.items() if k not in NON_CLAIM_FIELDS}
            return ClaimedOutput(fields=left, path=path, sources=cited)
        output, path = state[key], (*path, key)
    if claims is not None:
        raise InputError(
            f"claims={list(claims)}: paths of a structured answer, and this is a {type(output).__name__}"
        )
    return ClaimedOutput(
        chain_values.extract_answer(output, None), path=path, sources=cited
    )


def replace_claim_text(brought: Any, text: str, path: Sequence[str]) -> Any:
    """The output with another text at the place where `claimed` found it; everything else stays."""
    return change_at_path(
        brought, lambda at: chain_values.replace_answer(at, text, None), path
    )


def change_at_path(
    brought: Any, change: Callable[[Any], Any], path: Sequence[str]
) -> Any:
    """The output with what `claimed` found changed."""
    if not path:
        return change(brought)
    key, *rest = path
    changed = change_at_path(chain_values.as_mapping(brought)[key], change, rest)
    if isinstance(brought, Mapping):
        return {**brought, key: changed}
    if isinstance(brought, BaseModel):
        return brought.model_copy(update={key: changed})
    return dataclasses.replace(brought, **{key: changed})


def resolve_sources(
    cited: Sequence[Any], evidence: Sequence[Passage]
) -> dict[str, Any]:
    """What an answer names as its sources, found in the evidence; {} where it names none.

    A source is named by id, by metadata ``source`` (or the last part of its path), by title, or as a number
    counted from 1. ``resolved`` lists the documents found, with ``span``, the half-open range of a quote in it;
    what stands nowhere is in ``unresolved``, as it was given.
    """
    if not cited:
        return {}
    by_name: dict[str, Passage] = {}
    for known in evidence:
        for name in _names(known):
            by_name.setdefault(name, known)
    found, lost = [], []
    for one in cited:
        names, quote = _asked(one)
        passage: Passage | None = next(
            (by_name[n] for n in names if n in by_name), None
        )
        if (
            passage is None
            and names
            and names[0].isdecimal()
            and 1 <= int(names[0]) <= len(evidence)
        ):
            passage = evidence[int(names[0]) - 1]
        if passage is None and not names and quote:
            passage = next((p for p in evidence if quote in p.text), None)
        at = passage.text.find(quote) if passage is not None and quote else -1
        if passage is None or (quote and at < 0):
            lost.append(_plain(one))
            continue
        entry: dict[str, Any] = {
            "cited": names[0] if names else quote,
            "id": passage.id,
        }
        found.append({**entry, "span": [at, at + len(quote)]} if quote else entry)
    return {"resolved": found, "unresolved": lost}


def _unwrapped(brought: Any) -> tuple[Any, tuple[str, ...]]:
    """The object within ``include_raw=True``, or the message where it could not be parsed."""
    if isinstance(brought, Mapping) and set(brought) == _RAW:
        key = "raw" if brought["parsed"] is None else "parsed"
        return brought[key], (key,)
    return brought, ()


def _is_structured(value: Any) -> bool:
    if isinstance(value, Mapping):
        return chain_values.MESSAGES_KEY not in value or any(
            isinstance(value.get(k), str) for k in chain_values.ANSWER_KEYS
        )
    if isinstance(value, BaseModel):
        return not isinstance(value, (BaseMessage, PromptValue, Document))
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _says(value: Any) -> bool:
    return isinstance(value, (str, BaseMessage)) or _is_structured(value)


def _cited(output: Any) -> tuple[Any, ...]:
    state = chain_values.as_mapping(output)
    if not isinstance(state, Mapping):
        return ()
    given = [state[k] for k in SOURCE_KEYS if state.get(k)]
    return tuple(
        one for g in given for one in (g if isinstance(g, (list, tuple)) else [g])
    )


def _under_path(state: Mapping[str, Any], path: str) -> Any:
    """What stands at ``findings[].text``: of each item of a list, where a part ends in ``[]``."""
    found: list[Any] = [state]
    several = False
    for part in path.split("."):
        key = part.removesuffix("[]")
        found = [chain_values.value_under_key(f, key, f"claims: {path}") for f in found]
        if part.endswith("[]"):
            several = True
            if not all(isinstance(f, (list, tuple)) for f in found):
                raise InputError(f"claims={path!r}: there is no list at {part!r}")
            found = [item for f in found for item in f]
    return found if several else found[0]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _names(passage: Passage) -> list[str]:
    given = [
        passage.id,
        passage.metadata.get("source"),
        passage.metadata.get("title"),
        passage.metadata.get("url"),
    ]
    said = [str(g).strip() for g in given if g not in (None, "")]
    return [*said, *(PurePosixPath(s).name for s in said[1:2])]


def _asked(one: Any) -> tuple[list[str], str]:
    """The names under which a citation looks for its document, and its quote."""
    if isinstance(one, Document):
        one = {"id": one.id, **one.metadata}
    state = chain_values.as_mapping(one)
    if not isinstance(state, Mapping):
        said = str(state).strip().removeprefix("[").removesuffix("]")
        return ([said] if said else []), ""
    keys = ("id", "source_id", "document_id", "source", "title", "url")
    return [str(state[k]).strip() for k in keys if state.get(k) not in (None, "")], str(
        state.get("quote") or ""
    )


def validate_claims(claims: Any) -> Any:
    """A list of paths. Raises `InputError` for a string, or what holds anything but strings."""
    if claims is None or (
        isinstance(claims, Sequence)
        and not isinstance(claims, str)
        and all(isinstance(c, str) for c in claims)
    ):
        return None if claims is None else list(claims)
    hint = f"; write claims=[{claims!r}]" if isinstance(claims, str) else ""
    raise InputError(
        f"claims={claims!r}: expected a list of fields, such as ['answer', 'findings[].text']{hint}"
    )
