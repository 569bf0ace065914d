"""Question, answer and evidence in the values that chains and agents take and return.

A `ValueSelector` is the key or function that a user names, or None for the conventions
below, which are LangChain's own. A value that cannot be found is an error that lists the
keys that exist.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from denoise_core import InputError, Passage
from denoise_core.augmenter.drafting import RetrievedEvidence
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.tool_results import arguments_text
from denoise_core.types import Provenance
from langchain_denoise.convert.documents import (
    Documents,
    id_from_text,
    passages_from_documents,
    read_document_list,
    read_documents,
)
from langchain_denoise.convert.history import record_on_message
from langchain_denoise.convert.messages import (
    ConversationTurn,
    Messages,
    block_text,
    is_role_pair,
    last_position,
    read_messages,
)
from langchain_denoise.observe import Fields, Record

ValueSelector: TypeAlias = str | Callable[..., Any] | None
Evidence: TypeAlias = tuple[RetrievedEvidence, ...]

QUESTION_KEYS = ("question", "input", "query")
ANSWER_KEYS = ("answer", "output", "result", "text")
EVIDENCE_KEYS = ("context", "documents", "source_documents")
MESSAGES_KEY = "messages"


def as_mapping(value: Any) -> Any:
    """The fields of a pydantic object or dataclass as a mapping; others unchanged.

    Messages, prompts and documents are values of their own kind, not states.
    """
    framework_types = (BaseMessage, PromptValue, Document)
    if isinstance(value, BaseModel) and not isinstance(value, framework_types):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
        }
    return value


def extract_question(chain_input: Any, selector: ValueSelector) -> str:
    """The question in a chain's input.

    A string, the last human message of a prompt or conversation, or the value under one
    of `QUESTION_KEYS`.
    """
    messages = None
    if selector is None:
        messages = extract_messages(as_mapping(chain_input))
    if callable(selector):
        question = selector(chain_input)
    elif messages is not None:
        question = ConversationTurn.from_messages(messages).question
    elif selector is None and isinstance(chain_input, str):
        question = chain_input
    else:
        question = select_value(chain_input, selector, QUESTION_KEYS, "question")
    return value_text(question, "the question")


def find_answer(output: Any) -> Any:
    """The answer in an output that is no structured object.

    The output itself, the last AI message of a state ("" without one), or the value under
    one of `ANSWER_KEYS`.
    """
    if isinstance(output, (str, BaseMessage)):
        return output
    messages = extract_messages(output)
    if messages is None:
        return select_value(output, None, ANSWER_KEYS, "answer")
    position = last_position(messages, AIMessage)
    return "" if position is None else messages[position]


def extract_evidence(
    chain_input: Any, output: Any, selector: ValueSelector
) -> Evidence:
    """The evidence, from the output or else from the input.

    The first of `documents_in_state`, or what the tools of this turn returned; there may
    be none.

    Raises:
        InputError: For a value of the selector that is no documents.
    """
    if callable(selector):
        return documents_evidence(selector(chain_input, output))
    if selector is not None:
        is_in_output = isinstance(output, Mapping) and selector in output
        source = output if is_in_output else chain_input
        return documents_evidence(select_value(source, selector, (), "evidence"))
    for source in (as_mapping(output), as_mapping(chain_input)):
        if isinstance(source, Mapping):
            messages = extract_messages(source) or ()
            evidence = documents_in_state(source)[:1] or tools_evidence(messages)
            if evidence:
                return evidence
    return ()


def documents_in_state(state: Any) -> Evidence:
    """The documents under each of `EVIDENCE_KEYS`; other values there are left out."""
    evidence: Evidence = ()
    for key in EVIDENCE_KEYS:
        value = state.get(key)
        with suppress(ValueError):  # the user's own value of this name
            if value:
                evidence += documents_evidence(value)
    return evidence


def tools_evidence(messages: Messages, *, all_turns: bool = False) -> Evidence:
    """What each tool call brought, in order, with the words that it searched.

    The documents of a tool if it kept them, else its text. Of the current turn, or of
    the whole conversation.
    """
    queries = {}
    for message in messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                queries[call["id"] or ""] = arguments_text(call["args"])
    evidence = []
    turn_messages = ConversationTurn.from_messages(messages).replies
    for message in messages if all_turns else turn_messages:
        if isinstance(message, ToolMessage):
            passages = tool_output_passages(message)
            query = queries.get(message.tool_call_id)
            if passages:
                evidence.append(RetrievedEvidence(passages, query))
    return tuple(evidence)


def tool_output_passages(
    output: Any, author: Provenance = "tool"
) -> tuple[Passage, ...]:
    """What a tool returned, a message or any value, as passages; () for an error.

    The documents that it kept; or else search results and the text, which is by
    ``author``.
    """
    text = output
    documents = read_document_list(output)
    name = text_id = None
    if isinstance(output, ToolMessage):
        if output.status == "error":
            return ()
        documents = read_document_list(output.artifact)
        text = "" if documents else str(output.text)
        documents = documents or search_result_documents(output)
        name, text_id = output.name, output.tool_call_id
    passages = passages_from_documents(documents or ())
    if isinstance(text, str) and text.strip():
        text_id = text_id or f"tool-{id_from_text(text)}"
        passage = Passage(text, text_id, metadata={"tool": name}, provenance=author)
        passages += (passage,)
    return passages


def search_result_documents(message: ToolMessage) -> Documents:
    """The search results in a tool's content, which it gives the provider to cite."""
    documents = []
    for block in message.content:
        if not isinstance(block, Mapping) or block.get("type") != "search_result":
            continue
        content = block.get("content") or []
        items = content if isinstance(content, list) else [content]
        texts = [block_text(item) for item in items]
        metadata = {key: str(block.get(key) or "") for key in ("title", "source")}
        page_content = "\n".join(filter(None, texts))
        documents.append(Document(page_content=page_content, metadata=metadata))
    return documents


def documents_evidence(evidence: Any) -> Evidence:
    """Documents, strings, or a single one of either, as evidence; () for none of them.

    Raises:
        InputError: For anything else, such as a dict without ``page_content``.
    """
    is_single = isinstance(evidence, (str, Document, Mapping))
    items = [evidence] if is_single else evidence
    if isinstance(items, Iterable):
        items = [
            Document(page_content=item) if isinstance(item, str) else item
            for item in items
        ]
    passages = passages_from_documents(read_documents(items, "evidence"))
    return (RetrievedEvidence(passages),) if passages else ()


def replace_answer(output: Any, text: str, key: str | None = None) -> Any:
    """The output with another answer; everything else is unchanged.

    Args:
        output: A text, a message, a state of messages, or a dict of an answer.
        text: The other answer.
        key: The key of the answer; None is the first of `ANSWER_KEYS`.

    Raises:
        InputError: If it is not known where the answer goes, as in a structured answer.
    """
    if isinstance(output, str):
        return text
    if isinstance(output, BaseMessage):
        return output.model_copy(update={"content": text})
    if isinstance(output, Mapping):
        key = key or _first_key(output, ANSWER_KEYS)
        if isinstance(output.get(key), (str, BaseMessage)):
            return {**output, key: replace_answer(output[key], text)}
        messages = list(output.get(MESSAGES_KEY) or ())
        position = last_position(messages, AIMessage)
        if position is not None:
            messages[position] = replace_answer(messages[position], text)
            return {**output, MESSAGES_KEY: messages}
    raise InputError(
        f"cannot put another answer into a {type(output).__name__}: with "
        "unsupported='abstain' the output has to be a text, a message, or a dict with a "
        "text under answer='key'; or send unsupported answers as they are"
    )


def attach_record(output: Any, record: Record) -> Any:
    """The output with the record under the key "denoise".

    In a message it goes into the ``response_metadata``; a string becomes `VerifiedText`.

    Raises:
        InputError: If the chain has that key for something else.
    """
    if isinstance(output, BaseMessage):
        return record_on_message(output, record)
    if isinstance(output, Mapping):
        own_value = output.get(RECORD_KEY)
        is_record = isinstance(own_value, Mapping) and "stopped_because" in own_value
        if RECORD_KEY in output and not is_record:
            raise InputError(
                f"the chain's output has a key {RECORD_KEY!r} already, where verified "
                "puts its record: give it another name in the chain"
            )
        return {**output, RECORD_KEY: record}
    return VerifiedText(output, record) if isinstance(output, str) else output


class VerifiedText(str):
    """A chain's string with the record of its verification in ``denoise``.

    The record holds outcome, judge, score and every attempt. The text equals the plain
    string, and is a plain string once it is sliced or joined.
    """

    denoise: Record

    def __new__(cls, text: str, denoise: Record | None = None) -> VerifiedText:
        """``text`` with its record."""
        verified_text = super().__new__(cls, text)
        verified_text.denoise = denoise or {}
        return verified_text


def extract_messages(value: Any) -> list[BaseMessage] | None:
    """The messages of a prompt, of a list or of a state; None if there are none.

    In a state in every spelling that LangChain takes, a single message and strings
    included; a list of strings alone is no conversation.
    """
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, Mapping):
        messages = value.get(MESSAGES_KEY)
        # LangGraph reads a pair as one message, and a list as several.
        is_pair = isinstance(messages, tuple) and is_role_pair(messages)
        is_one = is_pair or isinstance(messages, (str, BaseMessage, Mapping))
        return read_messages([messages] if is_one else messages)
    if isinstance(value, Sequence) and any(isinstance(item, str) for item in value):
        return None
    return read_messages(value)


def select_value(
    value: Any, selector: str | None, keys: Sequence[str], argument: str
) -> Any:
    """The value under the user's key, or else under the first of ``keys`` that exists.

    Raises:
        InputError: If there is no such key; ``argument`` names the setting.
    """
    state = as_mapping(value)
    if not isinstance(state, Mapping):
        raise InputError(
            f"no {argument} in a {type(state).__name__}; "
            f"pass {argument}= a function that finds it"
        )
    key = _first_key(state, keys) if selector is None else selector
    if key in state:
        return state[key]
    missing = f"{argument}={selector!r}: there is no such key"
    if selector is None:
        missing = f"no {argument} under any of {keys}"
    key_names = sorted(map(str, state))
    raise InputError(f"{missing}; keys: {key_names}; pass {argument}='key'")


def _first_key(state: Fields, keys: Sequence[str]) -> str | None:
    return next((key for key in keys if key in state), None)


def value_text(value: Any, name: str) -> str:
    """The text of a string or a message.

    Raises:
        InputError: For anything else; ``name`` says what it is.
    """
    if isinstance(value, BaseMessage):
        return str(value.text)
    if not isinstance(value, str):
        raise InputError(
            f"{name}: expected a str or a message, got {type(value).__name__}"
        )
    return value
