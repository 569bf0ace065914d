"""What S2A says to a model: versioned data, replaceable one prompt at a time; the texts are in `wording`.

A template names its fields in braces (``{question}``); `Prompts` refuses one that lost a field it needs.
``{document}`` comes between lines that carry a marker the text does not hold, see `denoise_core.text.delimit`. The
forms of replies are JSON schemas, strict: every property required, no other allowed; an empty list for none.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, fields
from typing import Any

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
_ANSWERS = ("answer", "answer_fairly", "answer_keeping", "answer_stepwise")


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


_SHIPPED = {name: _asking(name) for name in (*_CHOICES, *_REWRITES, *_OF_A_PERSON)} | {
    name: Prompt(name, VERSION, wording.READ, getattr(wording, name.upper())) for name in _ANSWERS
}


@dataclass(frozen=True, slots=True)
class Prompts:
    """Every prompt of the method. Replace one with ``dataclasses.replace(Prompts(), select=Prompt(...))``.

    ``default`` to ``auto`` ask about documents, each variant by its own; ``rank`` is ``select`` with an order of
    importance, ``confirm`` a second look where nothing was kept. ``question`` parts a person's words,
    ``message...`` write them again, one for each variant that differs in step 1; ``answer...`` are step 2, where
    ``{context}`` is the reference text with its delimiters, or nothing. Raises `InputError` when a prompt lacks a
    field that its step fills, or names one that it does not."""

    default: Prompt = _SHIPPED["default"]
    single: Prompt = _SHIPPED["single"]
    relevance: Prompt = _SHIPPED["relevance"]
    select: Prompt = _SHIPPED["select"]
    rank: Prompt = _SHIPPED["rank"]
    remove: Prompt = _SHIPPED["remove"]
    auto: Prompt = _SHIPPED["auto"]
    confirm: Prompt = _SHIPPED["confirm"]
    question: Prompt = _SHIPPED["question"]
    message: Prompt = _SHIPPED["message"]
    message_single: Prompt = _SHIPPED["message_single"]
    message_relevance: Prompt = _SHIPPED["message_relevance"]
    answer: Prompt = _SHIPPED["answer"]
    answer_fairly: Prompt = _SHIPPED["answer_fairly"]
    answer_keeping: Prompt = _SHIPPED["answer_keeping"]
    answer_stepwise: Prompt = _SHIPPED["answer_stepwise"]

    def __post_init__(self) -> None:
        for f in fields(self):
            prompt: Prompt = getattr(self, f.name)
            needed = _NEEDED[f.name]
            differ = (("lacks", needed - prompt.fields), ("names", prompt.fields - needed))
            wrong = [f"{verb} {_braced(names)}" for verb, names in differ if names]
            if wrong:
                raise InputError(f"Prompts({f.name}=...) {' and '.join(wrong)}; its fields are {_braced(needed)}")


def _braced(names: frozenset[str]) -> str:
    return ", ".join(f"{{{n}}}" for n in sorted(names))


_ASK = frozenset({"question", "document"})
_REPLY = frozenset({"question", "context"})
_NEEDED = {
    **dict.fromkeys((*_CHOICES, *_REWRITES), _ASK),
    **dict.fromkeys(_OF_A_PERSON, _ASK - {"question"}),
    **dict.fromkeys(_ANSWERS, _REPLY),
    "answer_keeping": _REPLY | {"original"},
}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
_PIECES: dict[str, Any] = {"type": "array", "items": _object(n={"type": "integer"}, starts=_TEXT)}

KEEP = _object(keep=_PIECES)
DROP = _object(drop=_PIECES)
EITHER = _object(list={"type": "string", "enum": ["keep", "drop"]}, pieces=_PIECES)
PARTS = _object(request=_NUMBERS, opinion=_NUMBERS)
CONTEXT = _object(context=_TEXT)
BOTH = _object(context=_TEXT, question=_TEXT)
MESSAGE = _object(message=_TEXT)

_VARIANTS = {"select": KEEP, "remove": DROP, "auto": EITHER, "single": MESSAGE}


def schema(variant: str) -> dict[str, Any]:
    """The schema of a variant's reply about documents."""
    return _VARIANTS.get(variant, CONTEXT)


def message_schema(variant: str) -> dict[str, Any]:
    """The same about a person's message; the extractive variants part it in pieces."""
    return MESSAGE if variant == "single" else PARTS if variant in ("select", "remove", "auto") else BOTH


def said_again(wanted: dict[str, Any]) -> str:
    """The form in words, for the turn that asks for it again; without an example that might be copied."""
    return {
        id(KEEP): '{"keep": [numbers]}, {"keep": []} for none',
        id(DROP): '{"drop": [numbers]}, {"drop": []} for none',
        id(EITHER): '{"list": "keep" or "drop", "pieces": [numbers]}',
        id(PARTS): '{"request": [numbers], "opinion": [numbers]}',
        id(CONTEXT): '{"context": "the text that is left, or nothing"}',
        id(BOTH): '{"context": "the facts that are left, or nothing", "question": "the neutral request"}',
        id(MESSAGE): '{"message": "the message"}',
    }[id(wanted)]
