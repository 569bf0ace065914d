"""The question cleared of opinion: once, before any document is read, and only where it holds anything to clear.

Rules look first. Questions without a statement beside them and without a word of belief or pressure have
nothing to clear, and the model is not asked. What it writes is taken when it asks for the same thing
(`alignment.question`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply, is_mistake, said
from denoise_core.protocols import LLM
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.running.structured import held_to_schema
from denoise_core.s2a.alignment.asking import BELIEF, HINT
from denoise_core.s2a.alignment.parting import sentences_of
from denoise_core.s2a.alignment.question import why_not_same
from denoise_core.s2a.options import OnError, Options
from denoise_core.s2a.replies import fields, schemas
from denoise_core.s2a.replies.read import text_of
from denoise_core.text.delimit import envelope
from denoise_core.types import Reply

_PUSHES = re.compile(
    r"\b(?:right|correct|no|yes|isn't it|aren't they|wasn't it|don't you|do you agree|wouldn't you|oder"
    r"|nicht wahr|stimmt's"
    r"|n'est-ce pas|verdad|né|vero|giusto|toch|верно|правда)\s{0,9}[?？؟]|[对是]吧|ですよね|أليس كذلك",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cleared:
    """The question to go on with; ``note`` says why it is the person's own although it was to be cleared."""

    question: str
    note: str | None = None


def holds_something(question: str) -> bool:
    """Whether a question may hold anything to clear: a statement, a belief, or a push towards an answer."""
    said = sentences_of(question)
    stated = len(said) > 1 and not all(_ASKS.search(s) for s in said)
    return bool(said) and (
        stated or bool(BELIEF.search(question) or _PUSHES.search(question) or HINT.match(question))
    )


_ASKS = re.compile(r"[?？؟][\"'”’»)\]]{0,3}\s{0,9}\Z")


def clear(llm: LLM, question: str, options: Options, *, on_error: OnError) -> Flow[Cleared]:
    """One call that sees the question alone, or none. Raises a mistake, and what failed under ``"raise"``."""
    if not options.clear or not holds_something(question):
        return Cleared(question)
    messages = options.prompts.question.render(document=envelope(question, "question"))
    asked = held_to_schema(llm, schemas.QUESTION) if options.structured else llm
    if options.cache is not None:
        asked = options.cache.bind(asked, lambda reply: _is_question(reply))
    reply: Reply | Failed = (yield from batch((Complete(messages, "s2a.question", asked),)))[0]
    try:
        if isinstance(reply, Failed):
            raise reply.error
        written = fields.question(text_of(reply))
    except Exception as error:
        if on_error == "raise" or is_mistake(error):
            raise
        why = said(str(error) if isinstance(error, UnparsableReply) else error)
        return Cleared(question, f"the question was kept as it is: {why}")
    problem = why_not_same(question, written, language=options.language)
    if problem is not None:
        return Cleared(question, f"the question was kept as it is, the model's was refused: {problem}")
    return Cleared(written)


def _is_question(reply: Reply) -> bool:
    try:
        fields.question(text_of(reply))
    except UnparsableReply:
        return False
    return True
