"""The question cleared of opinion: once, before any document is read, and only where it holds anything to clear.

Rules look first. One sentence that asks, without a word of belief, praise or pressure, has nothing to clear, and
the model is not asked. What it writes is taken when it asks for the same thing (`alignment.question`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.errors import UnparsableReply, is_mistake
from denoise_core.protocols import LLM
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.running.structured import held_to_schema
from denoise_core.s2a.alignment.question import sentences_of, why_not_same
from denoise_core.s2a.options import OnError, Options
from denoise_core.s2a.replies import fields, schemas
from denoise_core.s2a.replies.read import text_of
from denoise_core.text.delimit import envelope
from denoise_core.types import Reply

_SWAYS = re.compile(
    r"\b(?:i(?:'m|'d| am| would| was| have|'ve)?|we|my|mine|me|imo|imho|iirc|afaik|surely|obviously|clearly|certainly"
    r"|undoubtedly|everyone knows|of course|right\?|isn't it|aren't they|don't you|do you agree|wouldn't you|admit it"
    r"|ich|mein\w*|wir|meines|doch|sicher|sicherlich|offensichtlich|natürlich|oder\?|nicht wahr"
    r"|je|j'\w+|mon|ma|mes|nous|à mon avis|sûrement|évidemment|n'est-ce pas"
    r"|yo|mi|mis|creo|pienso|opino|supongo|seguro|seguramente|obviamente|verdad\?"
    r"|eu|meu|minha|acho|penso|certamente|io|mio|mia|credo|penso|secondo me|sicuramente|vero\?"
    r"|ik|mijn|volgens mij|natuurlijk|я|мой|моя|мне|думаю|считаю|по-моему|конечно|разве)\b"
    r"|我|觉得|认为|肯定|显然|私|思う|思い|أظن|أعتقد|رأيي|بالتأكيد",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[?？؟][\"'”’»)\]]{0,3}\s*\Z")


@dataclass(frozen=True, slots=True)
class Cleared:
    """The question to go on with; ``note`` says why it is the person's own although it was to be cleared."""

    question: str
    note: str | None = None


def holds_something(question: str) -> bool:
    """Whether a question may hold anything to clear: more than one sentence, or a word that sways."""
    said = sentences_of(question)
    return bool(said) and (len(said) > 1 or _SWAYS.search(question) is not None)


def clear(llm: LLM, question: str, options: Options, *, on_error: OnError, language: str) -> Flow[Cleared]:
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
        why = str(error) if isinstance(error, UnparsableReply) else f"{type(error).__name__}: {error}"
        return Cleared(question, f"the question was kept as it is: {why}")
    problem = why_not_same(question, written, language=language)
    if problem is not None:
        return Cleared(question, f"the question was kept as it is, the model's was refused: {problem}")
    return Cleared(written)


def _is_question(reply: Reply) -> bool:
    try:
        fields.question(text_of(reply))
    except UnparsableReply:
        return False
    return True
