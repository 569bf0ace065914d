"""Where question, answer and evidence stand in what chains and agents take and give.

A *place* is named by the user as a key or a function, or left to the conventions below, which are LangChain's
own. What cannot be found is an error that lists what was there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from denoise_core import InputError, Passage, unique_ids
from denoise_core.runtime.record import RECORD_KEY
from langchain_denoise.convert.documents import (
    HEADER_KEYS,
    passages_from_documents,
    read_documents,
)

ValueSelector: TypeAlias = str | Callable[..., Any] | None

QUESTION_KEYS = ("question", "input", "query")
ANSWER_KEYS = ("answer", "output", "result", "text")
EVIDENCE_KEYS = ("context", "documents", "source_documents")
MESSAGES_KEY = "messages"


def as_mapping(given: Any) -> Any:
    """A pydantic or dataclass state as a mapping of its fields, not of what is in them; anything else as it is."""
    if isinstance(given, BaseModel) and not isinstance(
        given, (BaseMessage, PromptValue, Document)
    ):
        return {name: getattr(given, name) for name in type(given).model_fields}
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
    return given


def extract_question(given: Any, place: ValueSelector) -> str:
    """A string; a prompt's or conversation's last human message; or what stands under a usual key."""
    given = given if callable(place) else as_mapping(given)
    if callable(place):
        found = place(given)
    elif place is not None:
        found = value_under_key(given, place, "question")
    elif isinstance(given, str):
        found = given
    elif (messages := extract_messages(given)) is not None:
        found = next(
            (m.text for m in reversed(messages) if isinstance(m, HumanMessage)), None
        )
    else:
        found = _first_of(given, QUESTION_KEYS, "question")
    return _text(found, "the question")


def extract_answer(given: Any, place: ValueSelector) -> str:
    """A string; a message's text; what stands under a usual key; or the last AI message of a state."""
    if callable(place):
        return _text(place(given), "the answer")
    if place is not None:
        return _text(value_under_key(given, place, "answer"), "the answer")
    if isinstance(given, (str, BaseMessage)):
        return _text(given, "the answer")
    named = isinstance(given, Mapping) and any(
        isinstance(given.get(key), str) for key in ANSWER_KEYS
    )
    if not named and (messages := extract_messages(given)) is not None:
        found = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
        return "" if found is None else str(found.text)
    return _text(_first_of(given, ANSWER_KEYS, "answer"), "the answer")


def extract_evidence(
    given: Any, brought: Any, place: ValueSelector, *, required: bool = True
) -> tuple[Passage, ...]:
    """From the output or else the input: documents under a usual key, or what the tools of this turn found. Not
    ``needed``: nothing, where neither is there."""
    if callable(place):
        return evidence_passages(place(given, brought))
    if place is not None:
        source = brought if isinstance(brought, Mapping) and place in brought else given
        return evidence_passages(value_under_key(source, place, "evidence"))
    for source in (as_mapping(brought), as_mapping(given)):
        key = (
            next((k for k in EVIDENCE_KEYS if k in source), None)
            if isinstance(source, Mapping)
            else None
        )
        if key is not None:
            return evidence_passages(source[key])
        if (isinstance(source, Mapping) or required) and (
            messages := extract_messages(source)
        ) is not None:
            passages = [p for _, found in tool_passages(messages) for p in found]
            ids = unique_ids([p.id for p in passages])
            return tuple(
                dataclasses.replace(p, id=i) if p.id != i else p
                for p, i in zip(passages, ids)
            )
    return (
        evidence_passages(_first_of(brought, EVIDENCE_KEYS, "evidence"))
        if required
        else ()
    )


def tool_passages(
    messages: Sequence[BaseMessage], *, all_turns: bool = False
) -> list[tuple[Any, tuple[Passage, ...]]]:
    """What each tool brought, its documents if it kept them, else its text, with the arguments it was called with
    (None: not known), in order.

    Of the turn since the last human message, or of the whole conversation.
    """
    start = (
        0
        if all_turns
        else 1
        + max(
            (i for i, m in enumerate(messages) if isinstance(m, HumanMessage)),
            default=-1,
        )
    )
    arguments = {
        c["id"]: c["args"]
        for m in messages
        if isinstance(m, AIMessage)
        for c in m.tool_calls
    }
    found: list[tuple[Any, tuple[Passage, ...]]] = []
    for message in messages[start:]:
        if not isinstance(message, ToolMessage) or message.status == "error":
            continue
        documents = artifact_documents(message)
        if documents is None:
            about = {"tool": message.name}
            text = Passage(
                str(message.text),
                message.tool_call_id,
                metadata=about,
                provenance="tool",
            )
            passages: tuple[Passage, ...] = (text,) if text.text.strip() else ()
        else:
            passages = passages_from_documents(documents, HEADER_KEYS)
        found.append((arguments.get(message.tool_call_id), passages))
    return found


def artifact_documents(message: ToolMessage) -> list[Document] | None:
    """The documents a retrieval tool put beside its text (``response_format="content_and_artifact"``).

    A checkpoint brings them back as plain dicts; those are made documents again.
    """
    artifact = message.artifact
    if not isinstance(artifact, list) or not artifact:
        return None
    documents: list[Document] = []
    for item in artifact:
        if isinstance(item, dict) and "page_content" in item:
            item = Document(**item)
        if not isinstance(item, Document):
            return None
        documents.append(item)
    return documents


def evidence_passages(found: Any) -> tuple[Passage, ...]:
    """Documents, strings, or one of either, as passages."""
    items = [found] if isinstance(found, (str, Document)) else found
    if items is None or not isinstance(items, Iterable):
        raise InputError(
            f"evidence: expected documents or strings, got {type(found).__name__}"
        )
    documents = read_documents(
        (Document(page_content=i) if isinstance(i, str) else i for i in items),
        "evidence",
    )
    return passages_from_documents(documents, HEADER_KEYS)


def add_feedback(given: Any, rejected: str, feedback: str, place: ValueSelector) -> Any:
    """The input for another try, with what was wrong where the user says: a key, or a function."""
    if callable(place):
        return place(given, rejected, feedback)
    if not isinstance(place, str) or not isinstance(given, Mapping):
        raise InputError(
            f"feedback={place!r} names a key, and the input is a {type(given).__name__}"
        )
    return {**given, place: f"{rejected}\n\n{feedback}"}


FEEDBACK_ID_PREFIX = "denoise-feedback-"
"""How the ids of messages begin that were put into an input, so that they can be taken out of the output."""


def append_feedback_messages(given: Any, said: Sequence[BaseMessage]) -> Any:
    """The messages of an input with ours behind them."""
    marked = [
        m.model_copy(update={"id": f"{FEEDBACK_ID_PREFIX}{n}"})
        for n, m in enumerate(said)
    ]
    messages = [*(extract_messages(given) or []), *marked]
    return {**given, MESSAGES_KEY: messages} if isinstance(given, Mapping) else messages


def remove_feedback_messages(brought: Any) -> Any:
    """An output without the messages that `with_said` put into the input."""
    if isinstance(brought, Mapping) and isinstance(brought.get(MESSAGES_KEY), list):
        kept = [
            m
            for m in brought[MESSAGES_KEY]
            if not str(getattr(m, "id", "")).startswith(FEEDBACK_ID_PREFIX)
        ]
        return (
            {**brought, MESSAGES_KEY: kept}
            if len(kept) < len(brought[MESSAGES_KEY])
            else brought
        )
    return brought


def replace_answer(brought: Any, text: str, place: ValueSelector) -> Any:
    """The output with another answer in it; everything else stays."""
    if isinstance(brought, str):
        return text
    if isinstance(brought, BaseMessage):
        return brought.model_copy(update={"content": text})
    if isinstance(brought, Mapping):
        said = change_answer_message(
            brought, lambda m: m.model_copy(update={"content": text})
        )
        if place is None and said is not brought:
            return said
        key = (
            place
            if isinstance(place, str)
            else next((k for k in ANSWER_KEYS if k in brought), None)
        )
        if key is not None:
            return {**brought, key: text}
    raise InputError(
        f"cannot put another answer into a {type(brought).__name__}: pass answer='key', or limits that send "
        "unsupported answers as they are"
    )


def change_answer_message(
    brought: Any, change: Callable[[BaseMessage], BaseMessage]
) -> Any:
    """The output with the message changed that is its answer; as it came where that is none."""
    if isinstance(brought, BaseMessage):
        return change(brought)
    messages = (
        list(brought[MESSAGES_KEY])
        if isinstance(brought, Mapping) and MESSAGES_KEY in brought
        else []
    )
    at = next(
        (
            i
            for i in reversed(range(len(messages)))
            if isinstance(messages[i], AIMessage)
        ),
        None,
    )
    if at is None:
        return brought
    messages[at] = change(messages[at])
    return {**brought, MESSAGES_KEY: messages}


def attach_record(brought: Any, record: dict[str, Any]) -> Any:
    """The output with the record under a key, in a message's ``response_metadata``, or on the string itself."""
    if isinstance(brought, BaseMessage):
        return brought.model_copy(
            update={
                "response_metadata": {**brought.response_metadata, RECORD_KEY: record}
            }
        )
    if isinstance(brought, Mapping):
        return {**brought, RECORD_KEY: record}
    return VerifiedText(brought, record) if isinstance(brought, str) else brought


class VerifiedText(str):
    """A chain's string with what became of it: ``denoise`` is the record of the run (outcome, judge, score, every
    attempt). Equal to the plain string, and a plain string once it is cut or joined."""

    denoise: dict[str, Any]

    def __new__(cls, text: str, denoise: dict[str, Any] | None = None) -> VerifiedText:
        """``text`` with its record."""
        made = super().__new__(cls, text)
        made.denoise = denoise or {}
        return made


def extract_messages(given: Any) -> list[BaseMessage] | None:
    """The messages of a prompt, of a list of them, or of a state; None where there are none."""
    if isinstance(given, PromptValue):
        return given.to_messages()
    if isinstance(given, Mapping):
        given = given.get(MESSAGES_KEY)
    if (
        isinstance(given, Sequence)
        and given
        and all(isinstance(m, BaseMessage) for m in given)
    ):
        return list(given)
    return None


def _first_of(given: Any, keys: Sequence[str], what: str) -> Any:
    if isinstance(given, Mapping):
        for key in keys:
            if key in given:
                return given[key]
        raise InputError(
            f"no {what} under any of {keys}; keys: {sorted(map(str, given))}; pass {what}='key'"
        )
    raise InputError(
        f"no {what} in a {type(given).__name__}; pass {what}= a function that finds it"
    )


def value_under_key(given: Any, key: str, what: str) -> Any:
    """What stands under a key that the user named, of a mapping, a pydantic object or a dataclass."""
    given = as_mapping(given)
    if not isinstance(given, Mapping):
        raise InputError(
            f"{what}={key!r} names a key, and this is a {type(given).__name__}; pass a function"
        )
    if key not in given:
        raise InputError(
            f"{what}={key!r}: there is no such key; keys: {sorted(map(str, given))}"
        )
    return given[key]


def _text(found: Any, what: str) -> str:
    if isinstance(found, BaseMessage):
        return str(found.text)
    if not isinstance(found, str):
        raise InputError(
            f"{what}: expected a str or a message, got {type(found).__name__}"
        )
    return found
