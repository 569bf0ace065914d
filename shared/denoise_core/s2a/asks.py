"""Which calls to make: passages cut into pieces, pieces packed into calls, calls written as messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt
from denoise_core.text.delimit import envelope
from denoise_core.types import Message, Passage, Span

_CLOSING = 6  # where not all fit into one call, a call holds a sixth of the window on average: see `groups`


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

    Where not all fit into one call, the calls end where the parts' content says and not after so many characters:
    a passage more or less changes the call it is in and leaves the others as they were, so that caches know them.
    """
    run: list[Part] = []
    for part in all_parts:
        if len(part.text) <= longest:
            run.append(part)
            continue
        yield from _cut(run, window)
        yield (part,)
        run = []
    yield from _cut(run, window)


def _cut(parts: list[Part], window: int) -> Iterator[tuple[Part, ...]]:
    """Groups of neighbours, of a sixth of the window on average and never above it."""
    sizes = [len(p.text) for p in parts]
    if sum(sizes) <= window:
        yield from [tuple(parts)] if parts else []
        return
    drawn = [_drawn(p) for p in parts]
    start = 0
    for at, part in enumerate(parts):
        if drawn[at] < _CLOSING * len(part.text) / window or at + 1 == len(parts):
            yield from _fitting(parts, sizes, drawn, start, at + 1, window)
            start = at + 1


def _fitting(
    parts: list[Part], sizes: list[int], drawn: list[float], start: int, end: int, window: int
) -> Iterator[tuple[Part, ...]]:
    """``parts[start:end]`` cut after the parts that were drawn lowest, until each group fits."""
    waiting = [(start, end)]
    while waiting:
        a, b = waiting.pop()
        if b - a < 2 or sum(sizes[a:b]) <= window:
            yield tuple(parts[a:b])
            continue
        after = min(range(a, b - 1), key=drawn.__getitem__) + 1
        waiting += [(after, b), (a, after)]


def _drawn(part: Part) -> float:
    """A number in [0, 1) that the part's text alone decides."""
    data = part.text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(data).digest()[:6], "big") / 2**48


def write(question: str, group: tuple[Part, ...], prompt: Prompt, options: Options, *, numbered: bool) -> Ask:
    """The call over ``group``. Titles and the like stand inside the delimiters: they are untrusted too."""
    number = 0
    lines: list[str] = []
    for position, part in enumerate(group, 1):
        if len(group) > 1 and not numbered:
            lines.append(f"[document {position}]")
        told = [f"{key}: {part.passage.metadata[key]}" for key in options.show if key in part.passage.metadata]
        told += [part.passage.header] if part.passage.header else []
        lines += [f"({_one_line_begins(text)})" for text in told]
        if numbered:
            for span in part.spans:
                number += 1
                lines.append(f"{number} {_shown(part.passage.text[span.start : span.end], options.window)}")
        else:
            lines.append(part.text.strip())
        lines.append("")
    document = envelope("\n".join(lines).rstrip())
    values = {"question": envelope(question, "question"), "document": document}
    messages = prompt.render(**{name: values[name] for name in prompt.fields})
    return Ask(question, group, document.partition("\n")[0].rpartition(" ")[2], messages)


def alone(ask: Ask, prompt: Prompt, options: Options, *, numbered: bool) -> list[Ask]:
    """The call again, once for each of its parts."""
    return [write(ask.question, (part,), prompt, options, numbered=numbered) for part in ask.parts]


def _shown(text: str, window: int) -> str:
    """A piece as the model sees it: one that is longer than a whole call shows its two ends."""
    text = text.rstrip()
    if len(text) > window:
        half = max(1, window // 2)
        text = f"{text[:half]} (... {len(text) - 2 * half} characters ...) {text[-half:]}"
    return _one_line_begins(text)


def _one_line_begins(text: str) -> str:
    """``text`` with its further lines indented, so that none of them passes for the beginning of another piece.

    A line break is whatever `envelope` shows as one, not a line feed alone.
    """
    return "\n    ".join(text.splitlines())
