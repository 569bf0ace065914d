"""What S2A says to a model: versioned data, replaceable one prompt at a time; the texts are in `wording`.

A template names its
fields in braces (``{question}``); `Prompts` refuses one that lost a field it needs. ``{document}`` comes between
lines that carry a marker the text does not hold, see `denoise_core.text.delimit`.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, fields

from denoise_core.errors import InputError
from denoise_core.s2a import wording
from denoise_core.types import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """One template. ``version`` changes whenever the wording does, so that caches and records stay honest."""

    name: str
    version: str
    system: str
    user: str

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the two texts name. Raises `InputError` for braces that are no plain field."""
        found: set[str] = set()
        for text in (self.system, self.user):
            try:
                names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
            except ValueError as error:
                raise InputError(
                    f"prompt {self.name!r}: {error}; a brace meant as text is written twice: {{{{ }}}}"
                ) from error
            for name in names:
                if not name.isidentifier():
                    raise InputError(f"prompt {self.name!r}: {{{name}}} is not a plain field name")
                found.add(name)
        return frozenset(found)

    def render(self, **values: str) -> tuple[Message, ...]:
        """The messages. Values are put in as they are; braces inside them mean nothing."""
        user = Message("user", self.user.format(**values))
        return (Message("system", self.system.format(**values)), user) if self.system else (user,)


VERSION = "4"
"""Of every prompt here."""


def _clearing(name: str) -> Prompt:
    return Prompt(name, VERSION, wording.CLEAN, getattr(wording, name.upper()))


def _choosing(name: str) -> Prompt:
    return Prompt(name, VERSION, wording.CHOOSE, getattr(wording, name.upper()))


def _answering(name: str) -> Prompt:
    return Prompt(name, VERSION, wording.READ, getattr(wording, name.upper()))


DEFAULT = _clearing("default")
SINGLE = _clearing("single")
RELEVANCE = _clearing("relevance")
SELECT = _choosing("select")
RANK = _choosing("rank")
REMOVE = _choosing("remove")
AUTO = _choosing("auto")
QUESTION = _clearing("question")
MESSAGE = _clearing("message")
MESSAGE_SINGLE = _clearing("message_single")
MESSAGE_RELEVANCE = _clearing("message_relevance")
MESSAGE_SELECT = _choosing("message_select")
MESSAGE_REMOVE = _choosing("message_remove")
MESSAGE_AUTO = _choosing("message_auto")
ANSWER = _answering("answer")
ANSWER_FAIRLY = _answering("answer_fairly")
ANSWER_KEEPING = _answering("answer_keeping")
ANSWER_STEPWISE = _answering("answer_stepwise")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Every prompt of the method. Replace one with ``dataclasses.replace(Prompts(), select=Prompt(...))``.

    ``default`` to ``auto`` ask about documents, each variant by its own; ``rank`` is ``select`` with an order of
    importance; ``question`` clears the question; ``message...`` part a person's message, one for each variant that
    differs in step 1; ``answer...`` are step 2, where ``{context}`` is the reference text with its delimiters, or
    nothing. Raises `InputError` when a prompt lacks a field that its step fills, or names one that it does not.
    """

    default: Prompt = DEFAULT
    single: Prompt = SINGLE
    relevance: Prompt = RELEVANCE
    select: Prompt = SELECT
    rank: Prompt = RANK
    remove: Prompt = REMOVE
    auto: Prompt = AUTO
    question: Prompt = QUESTION
    message: Prompt = MESSAGE
    message_single: Prompt = MESSAGE_SINGLE
    message_relevance: Prompt = MESSAGE_RELEVANCE
    message_select: Prompt = MESSAGE_SELECT
    message_remove: Prompt = MESSAGE_REMOVE
    message_auto: Prompt = MESSAGE_AUTO
    answer: Prompt = ANSWER
    answer_fairly: Prompt = ANSWER_FAIRLY
    answer_keeping: Prompt = ANSWER_KEEPING
    answer_stepwise: Prompt = ANSWER_STEPWISE

    def __post_init__(self) -> None:
        for f in fields(self):
            prompt: Prompt = getattr(self, f.name)
            needed = _NEEDED[f.name]
            missing, unknown = needed - prompt.fields, prompt.fields - needed
            if missing or unknown:
                wrong = [f"lacks {_braced(missing)}"] * bool(missing) + [f"names {_braced(unknown)}"] * bool(
                    unknown
                )
                raise InputError(f"Prompts({f.name}=...) {' and '.join(wrong)}; its fields are {_braced(needed)}")


def _braced(names: frozenset[str]) -> str:
    return ", ".join(f"{{{n}}}" for n in sorted(names))


_ASK = frozenset({"question", "document"})
_REPLY = frozenset({"question", "context"})
_NEEDED = {
    **dict.fromkeys(("default", "single", "relevance", "select", "rank", "remove", "auto"), _ASK),
    **{
        name: _ASK - {"question"}
        for name in (
            "question",
            "message",
            "message_single",
            "message_relevance",
            "message_select",
            "message_remove",
            "message_auto",
        )
    },
    **dict.fromkeys(("answer", "answer_fairly", "answer_stepwise"), _REPLY),
    "answer_keeping": _REPLY | {"original"},
}
