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
    """One template. ``version`` changes whenever the wording does, so that caches and records stay honest.

    ``user`` asks for plain text; ``held`` is the same for a model that is held to a JSON schema, "" for ``user``.
    """

    name: str
    version: str
    system: str
    user: str
    held: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the two texts name. Raises `InputError` for braces that are no plain field."""
        found: set[str] = set()
        for text in (self.system, self.user, self.held):
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

    def render(self, *, by_schema: bool = False, **values: str) -> tuple[Message, ...]:
        """The messages. Values are put in as they are; braces inside them mean nothing."""
        user = Message("user", (self.held if by_schema and self.held else self.user).format(**values))
        return (Message("system", self.system.format(**values)), user) if self.system else (user,)


VERSION = "5"
"""Of every prompt here."""

_CHOICES = {"select": "keep", "confirm": "keep", "rank": "rank", "remove": "drop", "auto": "either"}
_REWRITES = {"default": "context", "relevance": "context", "single": "message"}
_OF_A_PERSON = {"question": "parts", "message": "both", "message_relevance": "both", "message_single": "message"}


def _asking(name: str) -> Prompt:
    """The prompt of step 1 that `wording` has under this name, in both of its forms."""
    form = {**_CHOICES, **_REWRITES, **_OF_A_PERSON}[name]
    by_schema, plain = wording.FORMS[form]
    task = getattr(wording, name.upper())
    system = wording.CHOOSE if name in _CHOICES or name == "question" else wording.CLEAN
    below = "" if name in _OF_A_PERSON else "\n\n{question}"
    gap = "\n" if name in _CHOICES else "\n\n"
    user, held = (f"{{document}}\n\n{task}{gap}{asked}{below}" for asked in (plain, by_schema))
    return Prompt(name, VERSION, system, user, held)


def _answering(name: str) -> Prompt:
    return Prompt(name, VERSION, wording.READ, getattr(wording, name.upper()))


DEFAULT = _asking("default")
SINGLE = _asking("single")
RELEVANCE = _asking("relevance")
SELECT = _asking("select")
RANK = _asking("rank")
REMOVE = _asking("remove")
AUTO = _asking("auto")
CONFIRM = _asking("confirm")
QUESTION = _asking("question")
MESSAGE = _asking("message")
MESSAGE_SINGLE = _asking("message_single")
MESSAGE_RELEVANCE = _asking("message_relevance")
ANSWER = _answering("answer")
ANSWER_FAIRLY = _answering("answer_fairly")
ANSWER_KEEPING = _answering("answer_keeping")
ANSWER_STEPWISE = _answering("answer_stepwise")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Every prompt of the method. Replace one with ``dataclasses.replace(Prompts(), select=Prompt(...))``.

    ``default`` to ``auto`` ask about documents, each variant by its own; ``rank`` is ``select`` with an order of
    importance, ``confirm`` a second look where nothing was kept. ``question`` parts a person's words,
    ``message...`` write them again, one for each variant that differs in step 1; ``answer...`` are step 2, where
    ``{context}`` is the reference text with its delimiters, or nothing. Raises `InputError` when a prompt lacks a
    field that its step fills, or names one that it does not."""

    default: Prompt = DEFAULT
    single: Prompt = SINGLE
    relevance: Prompt = RELEVANCE
    select: Prompt = SELECT
    rank: Prompt = RANK
    remove: Prompt = REMOVE
    auto: Prompt = AUTO
    confirm: Prompt = CONFIRM
    question: Prompt = QUESTION
    message: Prompt = MESSAGE
    message_single: Prompt = MESSAGE_SINGLE
    message_relevance: Prompt = MESSAGE_RELEVANCE
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
    **dict.fromkeys((*_CHOICES, *_REWRITES), _ASK),
    **dict.fromkeys(_OF_A_PERSON, _ASK - {"question"}),
    **dict.fromkeys(("answer", "answer_fairly", "answer_stepwise"), _REPLY),
    "answer_keeping": _REPLY | {"original"},
}
