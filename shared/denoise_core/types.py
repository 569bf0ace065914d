"""The nouns: what flows in and out of every denoiser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from denoise_core.errors import InputError

Role = Literal["system", "user", "assistant"]
Provenance = Literal["retrieved", "tool", "user", "model"]
"""Where a text comes from: a search, a tool's data, what a person wrote, what a model wrote."""

_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range ``[start, end)`` of characters (code points) of the input passage ``passage_id``."""

    passage_id: str
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of retrieved text.

    ``spans`` names the characters of the *input* passage that this text stands for, in order; ``()``
    means the input is untouched. For an extractive result the text is exactly those characters joined;
    ``rewritten`` marks text that a model wrote, which stands for its spans without being equal to them.

    ``header`` is read with the text by scorers, prompts and judges, and is no part of it or of its spans: a
    title, a caption, the head of a table, metadata that counts.

    ``provenance`` says where it comes from. An answer is held against what was ``"retrieved"`` and what a
    ``"tool"`` brought; what a ``"user"`` or a ``"model"`` wrote is no evidence.

    Raises `InputError` when the text is not a string, so that a ``None`` from a loader is caught here and
    not deep inside a tokenizer, and for a provenance that is none of the four.
    """

    text: str
    id: str
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    is_rewritten: bool = field(default=False, metadata={"json": "rewritten"})
    header: str = ""
    provenance: Provenance = "retrieved"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(
                f"passage {self.id!r}: expected its text as a str, got {type(self.text).__name__}; "
                "leave the passage out, or pass '' if it is really empty"
            )
        if self.provenance not in ("retrieved", "tool", "user", "model"):
            raise InputError(
                f"passage {self.id!r}: provenance={self.provenance!r}, expected 'retrieved', 'tool', 'user' or "
                "'model'"
            )

    @property
    def counts(self) -> bool:
        """Whether an answer may rest on it."""
        return self.provenance in ("retrieved", "tool")

    @property
    def text_with_header(self) -> str:
        """The text as it is read: behind its header, on a line of its own, where there is one."""
        return f"{self.header}\n{self.text}" if self.header else self.text

    @property
    def source_spans(self) -> tuple[Span, ...]:
        """The input characters this passage stands for, written out also when it is untouched."""
        return self.spans or (Span(self.id, 0, len(self.text)),)


@dataclass(frozen=True, slots=True)
class Keep:
    """An input range that was kept, with its ``score`` in the scorer's own unit."""

    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class Drop:
    """An input range that was left out, and why. ``score`` is in the scorer's own unit."""

    span: Span
    reason: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message to an LLM."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. ``estimated`` when the model did not say and the length was used instead;
    ``cached_tokens`` of the input were read from the server's cache of prompts, as far as it says.
    """

    input_tokens: int
    output_tokens: int
    is_estimated: bool = field(default=False, metadata={"json": "estimated"})
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "cached_tokens"):
            tokens = getattr(self, name)
            if not 0 <= tokens < float("inf"):
                raise InputError(
                    f"Usage({name}={tokens}): expected a number of tokens, 0 or more"
                )

    @classmethod
    def from_report(
        cls, input_tokens: Any, output_tokens: Any, cached_tokens: Any = 0
    ) -> Usage | None:
        """What a model reports of itself: None where that is no number of tokens; ``cached_tokens`` None is 0."""
        try:
            read, written = int(input_tokens), int(output_tokens)
            return cls(read, written, cached_tokens=int(cached_tokens or 0))
        except (TypeError, ValueError, OverflowError):
            return None

    @property
    def total(self) -> int:
        """Tokens read and written together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Event:
    """One effect: what was asked, what came back, wall-clock ``seconds``, tokens if any were used.

    ``reply`` is None when the effect failed; then ``error`` says ``Type: message``. ``made`` is False for one that
    the budget refused: nothing was asked, so it counts as no call.
    """

    tag: str
    effect: Any
    reply: Any
    seconds: float
    usage: Usage | None = None
    error: str | None = None
    executed: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """What an LLM answered. ``usage`` is None when the model does not report it.

    ``calls`` is more than 1 when one reply stands for several completions (an agent, a chain), 0 when no model was
    asked. ``inner`` are the effects that were carried out on the way and are no part of ``usage``: a judge of each
    sentence while the text was written. They go into the trace.
    """

    text: str
    usage: Usage | None = None
    calls: int = 1
    inner_events: tuple[Event, ...] = field(default=(), compare=False, repr=False)


def check_passages(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """The passages as a tuple; ``passages`` is read once, so it may be a generator.

    Raises `InputError` when they are no passages, and when two share an id: spans name passages by id.
    """
    if isinstance(passages, (str, bytes, Passage)) or not isinstance(
        passages, Iterable
    ):
        raise InputError(
            f"passages: expected several Passage objects, got {type_name(passages)}; put it in a list"
        )
    given = tuple(passages)
    seen: dict[str, int] = {}
    for position, passage in enumerate(given):
        if not isinstance(passage, Passage):
            raise InputError(
                f"passages[{position}]: expected a denoise_core.Passage, got {type_name(passage)}; "
                "write Passage(text, id=...), or use the adapter of your framework"
            )
        if passage.id in seen:
            raise InputError(
                f"passages {seen[passage.id]} and {position} share the id {passage.id!r}; ids must differ, "
                "because spans name passages by id: use denoise_core.unique_ids(...)"
            )
        seen[passage.id] = position
    return given


def type_name(value: object) -> str:
    """The name of its class, with the module where that is no builtin."""
    kind = type(value)
    return (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def unique_ids(ids: Sequence[str | None]) -> list[str]:
    """Ids made different: None becomes ``passage-<position>``, a repeated ``x`` becomes ``x#2``, ``x#3`` ...

    >>> unique_ids(["a", None, "a"])
    ['a', 'passage-1', 'a#2']
    """
    if None not in ids and len(set(ids)) == len(ids):
        return [i for i in ids if i is not None]
    taken = {i for i in ids if i is not None}
    used: set[str] = set()
    newest: dict[
        str, int
    ] = {}  # the number last given to a repeated id, so that many of one cost no more
    out: list[str] = []
    for position, wanted in enumerate(ids):
        base = f"passage-{position}" if wanted is None else wanted
        name, n = base, newest.get(base, 1)
        while name in used or (name in taken and name != wanted):
            n += 1
            name = f"{base}#{n}"
        newest[base] = n
        used.add(name)
        out.append(name)
    return out


def replace_surrogates(text: str) -> str:
    """The text with each lone surrogate, which no tokenizer takes, replaced by U+FFFD; offsets stay.

    Such characters come out of JSON with half an escaped emoji.
    """
    return text if text.isascii() else _LONE.sub("\ufffd", text)
