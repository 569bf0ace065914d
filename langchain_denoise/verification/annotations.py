"""The verdict in the message itself: LangChain's citations for what is supported, a note for what is not."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage

from denoise_core.augmenter import Answer
from denoise_core.augmenter.traces.record import claims_record
from denoise_core.running.record import KEY
from langchain_denoise.convert.messages import text_of


def annotated(message: BaseMessage, answer: Answer) -> BaseMessage:
    """The message with annotations on the text block that holds the answer; a content that was a string becomes
    one such block. As it came where the answer is not what was judged, or nothing was said of it."""
    content: list[Any] = [message.content] if isinstance(message.content, str) else list(message.content)
    for at, block in enumerate(content):
        text = text_of(block)
        if text is not None and answer.text in text and (notes := notes_on(answer, text.find(answer.text))):
            whole = {"type": "text", "text": text} if isinstance(block, str) else block
            content[at] = {**whole, "annotations": [*(whole.get("annotations") or []), *notes]}
            return message.model_copy(update={"content": content})
    return message


def notes_on(answer: Answer, offset: int = 0) -> list[dict[str, Any]]:
    """For each claim of the answer that is supported a citation for each quote: ``start_index`` and ``end_index``
    are the claim's characters in the text, ``offset`` later, ``cited_text`` the document's, ``extras`` its id and
    the quote's half-open range in it. For each other claim a note of LangChain's kind for what is ours alone."""
    about = {p.id: p.metadata for p in answer.memory.evidence}
    notes: list[dict[str, Any]] = []
    for claim in claims_record(answer):
        where = {"start_index": offset + claim["start"], "end_index": offset + claim["end"]}
        for quote in claim["quotes"] if claim["supported"] else ():
            named = about.get(quote["id"], {})
            known = {"url": named.get("url") or named.get("source"), "title": named.get("title")}
            extras = {"id": quote["id"], "span": [quote["start"], quote["end"]]}
            named = {key: str(value) for key, value in known.items() if value}
            notes.append({"type": "citation", **where, **named, "cited_text": quote["text"], "extras": extras})
        if not claim["supported"]:
            value = {KEY: {**where, "supported": claim["supported"], "why": claim["why"]}}
            notes.append({"type": "non_standard_annotation", "value": value})
    return notes
