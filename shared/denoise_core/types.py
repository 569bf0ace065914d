"""The values that go into and come out of every denoiser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from denoise_core.errors import InputError

Role = Literal["system", "user", "assistant"]
Provenance = Literal["retrieved", "tool", "user", "model"]
"""Where a text comes from: a search, a tool's data, a person, a model."""

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range ``[start, end)`` of characters (code points) of a passage."""

    passage_id: str
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of retrieved text.

    Args:
        text: The text.
        id: Names the passage in spans; unique within a list.
        score: The retriever's score.
        metadata: Anything; kept as it is.
        spans: The characters of the *input* passages that this text represents, in
            order; ``()`` means the input is untouched. For an extractive result the
            text is exactly those characters joined.
        is_rewritten: Whether a model wrote the text, so that it differs from the
            characters at its spans.
        header: Scorers, prompts and judges read it with the text, but it is no part of
            the text or its spans: a title, a caption, the head of a table.
        provenance: Where the text comes from. Answers are checked with
            ``"retrieved"`` texts and results of a ``"tool"``; what a ``"user"`` or a
            ``"model"`` wrote is no evidence.

    Raises:
        InputError: The text is not a string (a ``None`` from a loader is caught here and
            not deep inside a tokenizer), or the provenance is none of the four.
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
        """Whether an answer may cite this passage as evidence."""
        return self.provenance in ("retrieved", "tool")

    @property
    def text_with_header(self) -> str:
        """The text as scorers read it: after its header, if any, and a line break."""
        return join_header(self.header, self.text)

    @property
    def source_spans(self) -> tuple[Span, ...]:
        """The input characters of this passage, also when it is untouched."""
        if self.spans:
            return self.spans
        whole_text = Span(self.id, 0, len(self.text))
        return (whole_text,)


def join_header(header: str, text: str) -> str:
    """A text as scorers read it, in fitting and in use: after its header, if any, and a line break."""
    if not header:
        return text
    return f"{header}\n{text}"


@dataclass(frozen=True, slots=True)
class Keep:
    """An input range that was kept; ``score`` is in the scorer's unit."""

    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class Drop:
    """An input range that was left out, and why; ``score`` is in the scorer's unit."""

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
    """Tokens of one call.

    ``is_estimated`` when the model reported none and the text's length was used
    instead. ``cached_tokens`` of the input were read from the server's prompt cache, as
    far as it reports that.
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
        """Return the usage that a model reports; None where it reports no numbers."""
        try:
            input_count = int(input_tokens)
            output_count = int(output_tokens)
            cached_count = int(cached_tokens or 0)
            return cls(input_count, output_count, cached_tokens=cached_count)
        except (TypeError, ValueError, OverflowError):
            return None

    @property
    def total(self) -> int:
        """Tokens read and written together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Event:
    """One effect: the request, the reply, wall-clock ``seconds``, tokens if any.

    ``reply`` is None when the effect failed; then ``error`` is ``Type: message``.
    ``executed`` is False when the budget refused it: then it counts as no call.
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
    """What an LLM answered.

    Args:
        text: The text.
        usage: None when the model does not report it.
        calls: More than 1 when one reply took several completions (an agent, a chain),
            0 when no model was called.
    """

    text: str
    usage: Usage | None = None
    calls: int = 1


def check_passages(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return the passages as a tuple; they are read once and may be a generator.

    Raises:
        InputError: They are no passages, or two share an id: spans name passages by id.
    """
    is_one_value = isinstance(passages, (str, bytes, Passage))
    if is_one_value or not isinstance(passages, Iterable):
        raise InputError(
            f"passages: expected several Passage objects, got {type_name(passages)}; put it in a list"
        )
    inputs = tuple(passages)
    seen: dict[str, int] = {}
    for position, passage in enumerate(inputs):
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
    return inputs


def type_name(value: object) -> str:
    """Return the name of the value's class, with its module unless that is a builtin."""
    value_class = type(value)
    if value_class.__module__ == "builtins":
        return value_class.__name__
    return f"{value_class.__module__}.{value_class.__qualname__}"


def unique_ids(ids: Sequence[str | None]) -> list[str]:
    """Return different ids: None becomes ``passage-<position>``, a second ``x`` ``x#2``.

    >>> unique_ids(["a", None, "a"])
    ['a', 'passage-1', 'a#2']
    """
    distinct_count = len(set(ids))
    if None not in ids and distinct_count == len(ids):
        return [i for i in ids if i is not None]
    original_ids = {i for i in ids if i is not None}
    used_ids = set()
    suffixes: dict[str, int] = {}  # the last one of each id: many repeats stay linear
    different_ids = []
    for position, original_id in enumerate(ids):
        base = f"passage-{position}" if original_id is None else original_id
        name = base
        suffix = suffixes.get(base, 1)
        while name in used_ids or (name in original_ids and name != original_id):
            suffix += 1
            name = f"{base}#{suffix}"
        suffixes[base] = suffix
        used_ids.add(name)
        different_ids.append(name)
    return different_ids


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no tokenizer takes, by U+FFFD; offsets stay.

    Such characters come from JSON with half an escaped emoji.
    """
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)
