"""Which calls to make: passages cut into pieces, pieces packed into calls, calls written as messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt
from denoise_core.text.delimit import envelope
from denoise_core.types import Message, Passage, Span

_CLOSING = 4  # a joint call holds a quarter of the window on average: see `groups`


@dataclass(frozen=True, slots=True)
class Part:
    """A run of neighbouring pieces of one passage: all of it, unless it is longer than a call may be."""

    passage: Passage
    spans: tuple[Span, ...]

    @property
    def span(self) -> Span:
        return Span(self.passage.id, self.spans[0].start, self.spans[-1].end)

    @property
    def text(self) -> str:
        return self.passage.text[self.span.start : self.span.end]


@dataclass(frozen=True, slots=True)
class Ask:
    """One call. ``pieces`` are the numbered spans of an extractive call, number 1 first."""

    question: str
    parts: tuple[Part, ...]
    marker: str
    messages: tuple[Message, ...]

    @property
    def pieces(self) -> tuple[Span, ...]:
        return tuple(span for part in self.parts for span in part.spans)

    @property
    def size(self) -> int:
        """Characters of source text."""
        return sum(len(part.text) for part in self.parts)


def parts(passage: Passage, spans: Sequence[Span], window: int) -> Iterator[Part]:
    """Runs of pieces of at most ``window`` characters; a longer piece is a run of its own."""
    run: list[Span] = []
    for span in spans:
        if run and span.end - run[0].start > window:
            yield Part(passage, tuple(run))
            run = []
        run.append(span)
    if run:
        yield Part(passage, tuple(run))


def groups(all_parts: Sequence[Part], *, longest: int, window: int) -> Iterator[tuple[Part, ...]]:
    """The parts of each call: those of at most ``longest`` characters share calls of at most ``window``.

    Where a call ends is decided by the content of its last part and not by what stood before, so that a passage
    more or less changes the call it is in and leaves the other calls as they were: caches know them again.
    """
    group: list[Part] = []
    size = 0
    for part in all_parts:
        length = len(part.text)
        if group and (length > longest or size + length > window):
            yield tuple(group)
            group, size = [], 0
        group.append(part)
        size += length
        if length > longest or _closes(part, window):
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def _closes(part: Part, window: int) -> bool:
    """Whether a call ends with this part: of one in so many characters, by its hash."""
    data = part.text.encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(hashlib.sha256(data).digest()[:6], "big") / 2**48
    return drawn < _CLOSING * len(part.text) / window


def write(question: str, group: tuple[Part, ...], prompt: Prompt, options: Options, *, numbered: bool) -> Ask:
    """The call over ``group``. Titles and the like stand inside the delimiters: they are untrusted too."""
    number = 0
    lines: list[str] = []
    for position, part in enumerate(group, 1):
        if len(group) > 1:
            lines.append(f"[document {position}]" if not numbered else f"(document {position})")
        lines += [f"({key}: {part.passage.metadata[key]})" for key in options.show if key in part.passage.metadata]
        if part.passage.header:
            lines.append(f"({part.passage.header})")
        if numbered:
            for span in part.spans:
                number += 1
                lines.append(f"[{number}] {_shown(part.passage.text[span.start : span.end], options.window)}")
        else:
            lines.append(part.text.strip())
        lines.append("")
    document = envelope("\n".join(lines).rstrip())
    values = {"question": question, "document": document}
    messages = prompt.render(**{name: values[name] for name in prompt.fields})
    return Ask(question, group, document.partition("\n")[0].rpartition(" ")[2], messages)


def alone(ask: Ask, prompt: Prompt, options: Options, *, numbered: bool) -> list[Ask]:
    """The call again, once for each of its parts."""
    return [write(ask.question, (part,), prompt, options, numbered=numbered) for part in ask.parts]


def _shown(text: str, window: int) -> str:
    """A piece as the model sees it: one that is longer than a whole call shows its two ends.

    Its further lines are indented, so that none of them passes for the beginning of another piece.
    """
    text = text.rstrip()
    if len(text) > window:
        half = max(1, window // 2)
        text = f"{text[:half]} (... {len(text) - 2 * half} characters ...) {text[-half:]}"
    return text.replace("\n", "\n    ")
