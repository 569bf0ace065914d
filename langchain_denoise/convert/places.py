"""Where question, answer and evidence stand in what chains and agents take and give.

A *place* is named by the user as a key or a function, or left to the conventions below, which are LangChain's
own. What cannot be found is an error that lists what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from denoise_core import InputError, Message, Passage, unique_ids
from denoise_core.running.record import KEY
from langchain_denoise.convert.documents import to_passages
from langchain_denoise.convert.messages import to_messages

Place: TypeAlias = str | Callable[..., Any] | None

QUESTION_KEYS = ("question", "input", "query")
ANSWER_KEYS = ("answer", "output", "result")
EVIDENCE_KEYS = ("context", "documents", "source_documents")
MESSAGES = "messages"


def question_in(given: Any, place: Place) -> str:
    """A string; a prompt's or conversation's last human message; or what stands under a usual key."""
    if callable(place):
        found = place(given)
    elif place is not None:
        found = under(given, place, "question")
    elif isinstance(given, str):
        found = given
    elif (messages := messages_in(given)) is not None:
        found = next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), None)
    else:
        found = _first_of(given, QUESTION_KEYS, "question")
    return _text(found, "the question")


def answer_in(given: Any, place: Place) -> str:
    """A string; a message's text; the last AI message of a state; or what stands under a usual key."""
    if callable(place):
        return _text(place(given), "the answer")
    if place is not None:
        return _text(under(given, place, "answer"), "the answer")
    if isinstance(given, (str, BaseMessage)):
        return _text(given, "the answer")
    if (messages := messages_in(given)) is not None:
        found = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
        return "" if found is None else str(found.text)
    return _text(_first_of(given, ANSWER_KEYS, "answer"), "the answer")


def evidence_in(given: Any, brought: Any, place: Place) -> tuple[Passage, ...]:
    """From the output or else the input: documents under a usual key, or what the tools of this turn found."""
    if callable(place):
        return as_passages(place(given, brought))
    if place is not None:
        source = brought if isinstance(brought, Mapping) and place in brought else given
        return as_passages(under(source, place, "evidence"))
    for source in (brought, given):
        if isinstance(source, Mapping):
            key = next((k for k in EVIDENCE_KEYS if k in source), None)
            if key is not None:
                return as_passages(source[key])
        if (messages := messages_in(source)) is not None:
            return tool_evidence(messages)
    return as_passages(_first_of(brought, EVIDENCE_KEYS, "evidence"))


def tool_evidence(messages: Sequence[BaseMessage]) -> tuple[Passage, ...]:
    """What the tools brought since the last human message: their documents if they kept them, else the text."""
    turn: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, ToolMessage) and message.status != "error":
            turn.append(message)
    found: list[Document] = []
    for message in reversed(turn):
        documents = documents_of(message)
        text = Document(page_content=str(message.text), id=message.tool_call_id, metadata={"tool": message.name})
        found += [text] if documents is None else documents
    return to_passages(found)


def documents_of(message: ToolMessage) -> list[Document] | None:
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


def as_passages(found: Any) -> tuple[Passage, ...]:
    """Documents, strings, or one of either, as passages."""
    items = [found] if isinstance(found, (str, Document)) else found
    if items is None or not isinstance(items, Sequence):
        raise InputError(f"evidence: expected documents or strings, got {type(found).__name__}")
    documents = [Document(page_content=i) if isinstance(i, str) else i for i in items]
    ids = unique_ids([d.id if isinstance(d, Document) else None for d in documents])
    return to_passages(
        [d.model_copy(update={"id": i}) if isinstance(d, Document) else d for d, i in zip(documents, ids)]
    )


def with_feedback(given: Any, messages: Sequence[Message], place: Place, question: Place) -> Any:
    """The input for another try. ``messages`` are the question, the last draft and what was wrong with it."""
    draft, feedback = messages[-2].content, messages[-1].content
    if callable(place):
        return place(given, draft, feedback)
    if place is not None:
        if not isinstance(given, Mapping):
            raise InputError(f"feedback={place!r} names a key, and the input is a {type(given).__name__}")
        return {**given, place: f"{draft}\n\n{feedback}"}
    said = to_messages(messages[-2:])
    if isinstance(given, Mapping) and MESSAGES in given:
        return {**given, MESSAGES: [*given[MESSAGES], *said]}
    if (before := messages_in(given)) is not None:
        return [*before, *said]
    text = "\n\n".join(m.content for m in messages)
    if isinstance(given, str):
        return text
    key = question if isinstance(question, str) else next((k for k in QUESTION_KEYS if k in given), None)
    if key is None:
        raise InputError(
            "no place for feedback: pass feedback='key' or a function (input, draft, feedback) -> input"
        )
    return {**given, key: text}


def with_answer(brought: Any, text: str, place: Place) -> Any:
    """The output with another answer in it; everything else stays."""
    if isinstance(brought, str):
        return text
    if isinstance(brought, BaseMessage):
        return brought.model_copy(update={"content": text})
    if isinstance(brought, Mapping):
        if place is None and MESSAGES in brought:
            messages = list(brought[MESSAGES])
            at = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], AIMessage)), None)
            if at is not None:
                messages[at] = messages[at].model_copy(update={"content": text})
                return {**brought, MESSAGES: messages}
        key = place if isinstance(place, str) else next((k for k in ANSWER_KEYS if k in brought), None)
        if key is not None:
            return {**brought, key: text}
    raise InputError(
        f"cannot put another answer into a {type(brought).__name__}: pass answer='key', or limits that send "
        "unverified answers as they are"
    )


def with_record(brought: Any, record: dict[str, Any]) -> Any:
    """The output with the record under a key, or in a message's ``response_metadata``; a string has no room."""
    if isinstance(brought, BaseMessage):
        return brought.model_copy(update={"response_metadata": {**brought.response_metadata, KEY: record}})
    if isinstance(brought, Mapping):
        return {**brought, KEY: record}
    return brought


def messages_in(given: Any) -> list[BaseMessage] | None:
    """The messages of a prompt, of a list of them, or of a state; None where there are none."""
    if isinstance(given, PromptValue):
        return given.to_messages()
    if isinstance(given, Mapping):
        given = given.get(MESSAGES)
    if isinstance(given, Sequence) and given and all(isinstance(m, BaseMessage) for m in given):
        return list(given)
    return None


def _first_of(given: Any, keys: Sequence[str], what: str) -> Any:
    if isinstance(given, Mapping):
        for key in keys:
            if key in given:
                return given[key]
        raise InputError(f"no {what} under any of {keys}; keys: {sorted(map(str, given))}; pass {what}='key'")
    raise InputError(f"no {what} in a {type(given).__name__}; pass {what}= a function that finds it")


def under(given: Any, key: str, what: str) -> Any:
    """What stands under a key that the user named."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what}={key!r} names a key, and this is a {type(given).__name__}; pass a function")
    if key not in given:
        raise InputError(f"{what}={key!r}: there is no such key; keys: {sorted(map(str, given))}")
    return given[key]


def _text(found: Any, what: str) -> str:
    if isinstance(found, BaseMessage):
        return str(found.text)
    if not isinstance(found, str):
        raise InputError(f"{what}: expected a str or a message, got {type(found).__name__}")
    return found
