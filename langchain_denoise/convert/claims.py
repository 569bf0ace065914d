"""Which parts of an output are judged, and the sources it names, found in the evidence.

A structured answer holds more than claims: sources, a confidence, questions to ask next.
Judged are the fields that LangChain's own chains use for an answer, or those that the
user names.
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
from denoise_core.support.judging import ProviderCitation
from langchain_denoise.convert.chain_values import (
    ANSWER_KEYS,
    EVIDENCE_KEYS,
    MESSAGES_KEY,
    QUESTION_KEYS,
    ValueSelector,
    as_mapping,
    extract_answer_text,
    find_answer_value,
    has_answer_text,
    is_dataclass_instance,
    replace_answer,
    value_under_key,
)
from langchain_denoise.convert.messages import message_citations
from langchain_denoise.observe import Record

SOURCE_KEYS = ("sources", "citations", "references")
"""Fields that name documents: looked up in the evidence, and not judged."""

NON_CLAIM_FIELDS = (
    *SOURCE_KEYS,
    *QUESTION_KEYS,
    *EVIDENCE_KEYS,
    "confidence",
    "follow_up_questions",
)
"""Fields of a structured answer that are left out when all of it is judged."""

_DOCUMENT_NAME_KEYS = ("id", "source_id", "document_id", "source", "title", "url")

# The keys of the output of with_structured_output(include_raw=True).
_INCLUDE_RAW_KEYS = {"raw", "parsed", "parsing_error"}


@dataclass(frozen=True, slots=True)
class ClaimedOutput:
    """What is judged of one output: ``text``, or ``fields`` by name or path.

    ``path`` leads to the text in the output, so that it can be replaced. ``sources`` are
    those that the output names, ``citations`` those of a message's provider.
    """

    text: str = ""
    fields: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()
    sources: tuple[Any, ...] = ()
    citations: tuple[ProviderCitation, ...] = ()


def extract_output_claims(
    output: Any, selector: ValueSelector, claims: Sequence[str] | None = None
) -> ClaimedOutput:
    """What is judged of an output.

    Without selector and claims: a text or message; the value under one of `ANSWER_KEYS`,
    at any depth; or, of an object without such a field, every field but those of
    `NON_CLAIM_FIELDS`.

    Args:
        output: What the chain returned.
        selector: The user's key or function; a function gets the unchanged output.
        claims: The user's paths, such as ``"findings[].text"``.

    Raises:
        InputError: If the output has no such key, path or answer.
    """
    if callable(selector):
        return _selected_text(output, selector)
    value, path = _without_raw(output)
    if selector is not None:
        value = value_under_key(value, selector, "answer")
        path = (*path, selector)
    sources: tuple[Any, ...] = ()
    while _is_structured(value):
        state = as_mapping(value)
        sources = _named_sources(state) or sources
        if claims is not None:
            fields = {name: _to_plain(_value_at_path(state, name)) for name in claims}
            return ClaimedOutput(fields=fields, path=path, sources=sources)
        key = _answer_key(state)
        if key is None:
            if isinstance(value, Mapping) and not state.keys().isdisjoint(ANSWER_KEYS):
                break  # `extract_answer_text` raises the error for an answer of a wrong type
            fields = {}
            for name, field_value in state.items():
                if name not in NON_CLAIM_FIELDS:
                    fields[name] = _to_plain(field_value)
            return ClaimedOutput(fields=fields, path=path, sources=sources)
        value = state[key]
        path = (*path, key)
    if claims is not None:
        raise InputError(
            f"claims={list(claims)}: paths of a structured answer, and this is a "
            f"{type(value).__name__}"
        )
    answer = find_answer_value(value, None)
    citations = message_citations(answer) if isinstance(answer, BaseMessage) else ()
    text = extract_answer_text(answer, None)
    return ClaimedOutput(text, path=path, sources=sources, citations=citations)


def _selected_text(output: Any, selector: Callable[..., Any]) -> ClaimedOutput:
    text = extract_answer_text(output, selector)
    located = ClaimedOutput()
    with suppress(InputError):  # only the path is needed, to replace the text later
        located = extract_output_claims(output, None)
    path = located.path if located.text == text else ()
    return ClaimedOutput(text, path=path, sources=located.sources)


def replace_claim_text(output: Any, text: str, path: Sequence[str]) -> Any:
    """The output with another text at the path of its `ClaimedOutput`."""
    return change_at_path(output, lambda value: replace_answer(value, text), path)


def change_at_path(
    output: Any, change: Callable[[Any], Any], path: Sequence[str]
) -> Any:
    """The output with the value at the path changed; everything else is unchanged."""
    if not path:
        return change(output)
    key, *inner_path = path
    new_value = change_at_path(as_mapping(output)[key], change, inner_path)
    if isinstance(output, Mapping):
        return {**output, key: new_value}
    if isinstance(output, BaseModel):
        return output.model_copy(update={key: new_value})
    return dataclasses.replace(output, **{key: new_value})


def resolve_sources(sources: Sequence[Any], evidence: Sequence[Passage]) -> Record:
    """The sources that an answer names, found in the evidence; {} if it names none.

    A source is named by id, by metadata ``source`` (or the last part of its path), by
    title or URL, or by a number counted from 1.

    Returns:
        ``resolved``: for each document found its id, and ``span``, the half-open range of
        a quote in it. ``unresolved``: the other sources, unchanged.
    """
    if not sources:
        return {}
    passages_by_name: dict[str, Passage] = {}
    for passage in evidence:
        for name in _passage_names(passage):
            passages_by_name.setdefault(name, passage)
    resolved_sources = []
    unresolved = []
    for source in sources:
        names, quote = _names_and_quote(source)
        match = _find_passage(names, quote, passages_by_name, evidence)
        if match is None or quote not in match.text:
            unresolved.append(_to_plain(source))
            continue
        entry: Record = {"cited": names[0] if names else quote, "id": match.id}
        if quote:
            start = match.text.find(quote)
            entry["span"] = [start, start + len(quote)]
        resolved_sources.append(entry)
    return {"resolved": resolved_sources, "unresolved": unresolved}


def _find_passage(
    names: Sequence[str],
    quote: str,
    passages_by_name: Mapping[str, Passage],
    evidence: Sequence[Passage],
) -> Passage | None:
    for name in names:
        if name in passages_by_name:
            return passages_by_name[name]
    if names:
        number = int(names[0]) if names[0].isdecimal() else 0
        return evidence[number - 1] if 1 <= number <= len(evidence) else None
    for passage in evidence:
        if quote and quote in passage.text:
            return passage
    return None


def _without_raw(output: Any) -> tuple[Any, tuple[str, ...]]:
    """The object in an ``include_raw=True`` output; the message if parsing failed."""
    if isinstance(output, Mapping) and set(output) == _INCLUDE_RAW_KEYS:
        key = "raw" if output["parsed"] is None else "parsed"
        return output[key], (key,)
    return output, ()


def _is_structured(value: Any) -> bool:
    if isinstance(value, Mapping):
        return MESSAGES_KEY not in value or has_answer_text(value)
    if isinstance(value, BaseModel):
        return not isinstance(value, (BaseMessage, PromptValue, Document))
    return is_dataclass_instance(value)


def _answer_key(state: Mapping[str, Any]) -> str | None:
    for key in ANSWER_KEYS:
        value = state.get(key)
        if isinstance(value, (str, BaseMessage)) or _is_structured(value):
            return key
    return None


def _named_sources(state: Mapping[str, Any]) -> tuple[Any, ...]:
    sources: list[Any] = []
    for key in SOURCE_KEYS:
        value = state.get(key)
        if value:
            sources += value if isinstance(value, (list, tuple)) else [value]
    return tuple(sources)


def _value_at_path(state: Mapping[str, Any], path: str) -> Any:
    """The value at ``findings[].text``; a list, if a part of the path ends in ``[]``."""
    values: list[Any] = [state]
    for part in path.split("."):
        key = part.removesuffix("[]")
        values = [value_under_key(value, key, f"claims: {path}") for value in values]
        if part.endswith("[]"):
            items: list[Any] = []
            for value in values:
                if not isinstance(value, (list, tuple)):
                    raise InputError(f"claims={path!r}: there is no list at {part!r}")
                items += value
            values = items
    return values if "[]" in path else values[0]


def _to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass_instance(value):
        return dataclasses.asdict(value)
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    return value


def _passage_names(passage: Passage) -> list[str]:
    names = [str(passage.id).strip()]
    for key in ("source", "title", "url"):
        names += _text_of_value(passage.metadata.get(key))
    # A file may be cited by the last part of its path.
    return [*names, *(PurePosixPath(name).name for name in names[1:2])]


def _text_of_value(value: Any) -> list[str]:
    return [] if value in (None, "") else [str(value).strip()]


def _names_and_quote(source: Any) -> tuple[list[str], str]:
    """The names that a citation gives its document, and its quote."""
    if isinstance(source, Document):
        source = {"id": source.id, **source.metadata}
    state = as_mapping(source)
    if not isinstance(state, Mapping):
        name = str(state).strip().removeprefix("[").removesuffix("]")
        return ([name] if name else []), ""
    names: list[str] = []
    for key in _DOCUMENT_NAME_KEYS:
        names += _text_of_value(state.get(key))
    return names, str(state.get("quote") or "")


def validate_claims(claims: Any) -> Any:
    """The paths as a list, or None.

    Raises:
        InputError: For one string, and for items that are not strings.
    """
    if claims is None:
        return None
    is_list = isinstance(claims, Sequence) and not isinstance(claims, str)
    if is_list and all(isinstance(path, str) for path in claims):
        return list(claims)
    hint = f"; write claims=[{claims!r}]" if isinstance(claims, str) else ""
    raise InputError(
        f"claims={claims!r}: expected a list of fields, such as "
        f"['answer', 'findings[].text']{hint}"
    )
