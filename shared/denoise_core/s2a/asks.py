"""Which calls to make: passages cut into pieces, pieces packed into calls, calls written as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt
from denoise_core.text.delimit import envelope
from denoise_core.types import Message, Passage, Span


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
    """One call. ``pieces`` are the numbered spans of an extractive call, number 1 first.

    ``form`` is the schema of the reply, ``fields`` what its prompt is filled with; `messages` has both forms of
    it."""

    parts: tuple[Part, ...]
    prompt: Prompt
    form: dict[str, Any]
    fields: Mapping[str, str]

    @property
    def pieces(self) -> tuple[Span, ...]:
        return tuple(span for part in self.parts for span in part.spans)

    @property
    def size(self) -> int:
        """Characters of source text."""
        return sum(len(part.text) for part in self.parts)

    @property
    def marker(self) -> str:
        """What the lines around its document carry."""
        return self.fields["document"].partition("\n")[0].rpartition(" ")[2]

    def messages(self, by_schema: bool) -> tuple[Message, ...]:
        """The prompt for a model that is held to a schema, or for one that writes plain text."""
        return self.prompt.render(by_schema=by_schema, **self.fields)

    def text(self, span: Span) -> str:
        """The source text of one of its pieces."""
        part = next(p for p in self.parts if p.passage.id == span.passage_id)
        return part.passage.text[span.start : span.end]


def parts(passage: Passage, spans: Sequence[Span], options: Options) -> Iterator[Part]:
    """Runs of pieces that fit into one call; a longer piece is a run of its own."""
    run: list[Span] = []
    for span in spans:
        if run and (span.end - run[0].start > options.window or len(run) == options.pieces):
            yield Part(passage, tuple(run))
            run = []
        run.append(span)
    if run:
        yield Part(passage, tuple(run))


def groups(all_parts: Sequence[Part], longest: int, options: Options) -> Iterator[tuple[Part, ...]]:
    """The parts of each call: neighbours of at most ``longest`` characters share calls as far as they fit."""
    run: list[Part] = []
    for part in all_parts:
        size = sum(len(p.text) for p in (*run, part))
        count = sum(len(p.spans) for p in (*run, part))
        shares = len(part.text) <= longest
        if run and (not shares or size > options.window or count > options.pieces):
            yield tuple(run)
            run = []
        if shares:
            run.append(part)
        else:
            yield (part,)
    if run:
        yield tuple(run)


def documents(part: Part, options: Options, numbers: Iterator[int] | None) -> list[str]:
    """The lines of a part. Titles and the like stand inside the delimiters: they are untrusted too."""
    told = [f"{key}: {part.passage.metadata[key]}" for key in options.metadata if key in part.passage.metadata]
    told += [part.passage.header] if part.passage.header else []
    lines = [f"({_one_line_begins(text)})" for text in told]
    if numbers is None:
        return [*lines, part.text.strip()]
    for span, number in zip(part.spans, numbers):
        lines.append(f"{number} {_shown(part.passage.text[span.start : span.end], options.window)}")
    return lines


def write(
    query: str, group: tuple[Part, ...], prompt: Prompt, form: dict[str, Any], options: Options, *, numbered: bool
) -> Ask:
    """The call over ``group``."""
    values = {"question": query, "document": _document(group, options, numbered)}
    if "question" in prompt.fields:
        values["question"] = envelope(query, "question")
    return Ask(group, prompt, form, {name: values[name] for name in prompt.fields})


def alone(ask: Ask, options: Options, *, numbered: bool) -> list[Ask]:
    """The call again, once for each of its parts; the question stands in it as it did."""
    return [_about(ask, (part,), options, numbered=numbered) for part in ask.parts]


def halved(ask: Ask, options: Options, *, numbered: bool) -> list[Ask]:
    """The call again as two, each about half of its parts, of which there are two or more."""
    half = len(ask.parts) // 2
    return [_about(ask, group, options, numbered=numbered) for group in (ask.parts[:half], ask.parts[half:])]


def _about(ask: Ask, group: tuple[Part, ...], options: Options, *, numbered: bool) -> Ask:
    return replace(ask, parts=group, fields={**ask.fields, "document": _document(group, options, numbered)})


def _document(group: tuple[Part, ...], options: Options, numbered: bool) -> str:
    numbers = iter(range(1, 1 + sum(len(p.spans) for p in group))) if numbered else None
    blocks = ["\n".join(documents(part, options, numbers)) for part in group]
    return envelope("\n\n".join(blocks).rstrip())


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
