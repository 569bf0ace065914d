"""Which parts of an output are judged.

A structured answer holds more than claims: sources, a confidence, questions to ask next.
Judged are the fields that LangChain's own chains use for an answer, or those that the
user names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic_core import to_jsonable_python

from langchain_denoise.convert.chain_values import (
    ANSWER_KEYS,
    EVIDENCE_KEYS,
    MESSAGES_KEY,
    QUESTION_KEYS,
    ValueSelector,
    as_mapping,
    find_answer,
    select_value,
    value_text,
)
from langchain_denoise.convert.messages import Citations, message_citations
from langchain_denoise.observe import Fields

NON_CLAIM_FIELDS = (
    "sources",
    "citations",
    "references",
    *QUESTION_KEYS,
    *EVIDENCE_KEYS,
    "confidence",
    "follow_up_questions",
)
"""Fields of a structured answer that are left out when all of it is judged."""

# What LangGraph adds to the state of a graph that waits for its user.
INTERRUPT_KEY = "__interrupt__"

# The keys of the output of with_structured_output(include_raw=True).
_INCLUDE_RAW_KEYS = {"raw", "parsed", "parsing_error"}


@dataclass(frozen=True, slots=True)
class ClaimedOutput:
    """What is judged of one output: ``text``, or ``fields`` by name.

    ``citations`` are those of a message's provider. A message with ``tool_calls`` is a
    step on the way to an answer, and so is a graph's interrupt, which waits for one:
    nothing of it is judged.
    """

    text: str = ""
    fields: Fields | None = None
    citations: Citations = ()
    tool_calls: Sequence[Any] = ()


def extract_output_claims(output: Any, selector: ValueSelector) -> ClaimedOutput:
    """What is judged of an output.

    Without a selector: a text or message; the value under one of `ANSWER_KEYS`, at any
    depth; or, of an object without such a field, every field but those of
    `NON_CLAIM_FIELDS`.

    Args:
        output: What the chain returned.
        selector: The user's key or function. A function gets the unchanged output, and
            of a dict that it returns every field is judged.

    Raises:
        InputError: If the output has no such key or answer.
    """
    if isinstance(output, Mapping) and INTERRUPT_KEY in output:
        return ClaimedOutput(tool_calls=output[INTERRUPT_KEY])
    if callable(selector):
        value = selector(output)
        if isinstance(value, dict):
            return _fields_output(value)
    else:
        value = _without_raw(output)
        if selector is not None:
            value = select_value(value, selector, (), "answer")
    state = as_mapping(value)
    while isinstance(state, Mapping):
        is_chat = isinstance(value, Mapping) and MESSAGES_KEY in value
        key = _answer_key(state, only_text=is_chat)
        if key is None:
            has_answer_key = not state.keys().isdisjoint(ANSWER_KEYS)
            # `find_answer` raises the error for an answer of a wrong type.
            if is_chat or (has_answer_key and isinstance(value, Mapping)):
                break
            names = [name for name in state if name not in NON_CLAIM_FIELDS]
            return _fields_output({name: state[name] for name in names})
        value = state[key]
        state = as_mapping(value)
    answer = find_answer(state)
    text = value_text(answer, "the answer")
    if not isinstance(answer, AIMessage):
        return ClaimedOutput(text)
    citations = message_citations(answer)
    return ClaimedOutput(text, citations=citations, tool_calls=answer.tool_calls)


def _fields_output(fields: Fields) -> ClaimedOutput:
    return ClaimedOutput(fields=to_jsonable_python(fields, fallback=str))


def _without_raw(output: Any) -> Any:
    """The object in an ``include_raw=True`` output; the message if parsing failed."""
    if isinstance(output, Mapping) and set(output) == _INCLUDE_RAW_KEYS:
        return output["raw"] if output["parsed"] is None else output["parsed"]
    return output


def _answer_key(state: Fields, *, only_text: bool) -> str | None:
    """The key of the answer: a text, a message or, unless ``only_text``, an object."""
    for key in ANSWER_KEYS:
        value = state.get(key)
        if isinstance(value, (str, BaseMessage)):
            return key
        if not only_text and isinstance(as_mapping(value), Mapping):
            return key
    return None
