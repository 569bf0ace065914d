r"""Layouts: how instruction S, passage C and question Q become one prompt, by default [S|C|Q].

A prompt is defined as concatenated token ids, in fitting and in scoring alike; the joint text is never
tokenised, because a tokeniser may merge characters across a boundary and then the same passage would have
other tokens under another question. What comes before the question is therefore the same for every
question, and its keys and values can be reused exactly (`denoise_core.local.kv_cache.prefix_cache`).

A layout of your own is a name and its parts::

    mine = Layout("mine", ("Read this note.\\n\\n", PASSAGE, "\\n\\nSomeone asks: ", QUERY))

The wording is ours, not that of Early Noise Dropping (section 3.3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from denoise_core.errors import InputError
from denoise_core.local.chat_template import (
    render_chat,
    start_token_ids,
    tokenize_texts,
)


class Slot(Enum):
    """Where the two texts of a prompt go."""

    PASSAGE = "passage"
    QUERY = "question"  # the value is part of fingerprints that are out there


PASSAGE = Slot.PASSAGE
"""The slot of the passage's text."""
QUERY = Slot.QUERY
"""The slot of the question."""
LayoutPart: TypeAlias = str | Slot

INSTRUCTION = (
    "You are given a passage and a question. Use only the passage to answer the question, and say so when "
    "the passage does not hold the answer."
)
# Some chat templates print today's date; a score must not change over night.
_FIXED_DAY = "{% macro strftime_now(format) %}26 Jul 2024{% endmacro %}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Fixed texts and the slots `PASSAGE` and `QUERY`, in order: ``system`` parts, then ``parts``.

    With ``chat`` the tokenizer's chat template, where it has one, renders ``system`` as the system message
    and ``parts`` as the user's, so that the template's special tokens separate them.
    Without a template, or with ``chat=False``, all parts follow the tokenizer's own start token, with an
    empty line between ``system`` and ``parts``.

    Raises `InputError` for a layout without a passage slot or with a slot twice.
    """

    name: str
    parts: tuple[LayoutPart, ...] = ()
    system: tuple[LayoutPart, ...] = ()
    chat: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "system", tuple(self.system))
        all_parts = self.system + self.parts
        if PASSAGE not in all_parts:
            raise InputError(
                f"layout {self.name!r}: expected the slot PASSAGE among its parts, got {all_parts!r}"
            )
        for slot in Slot:
            if all_parts.count(slot) > 1:
                raise InputError(
                    f"layout {self.name!r}: the slot {slot.name} may occur once"
                )

    def bind(self, tokenizer: Any) -> BoundLayout:
        """The layout in one tokenizer's ids. Raises `InputError` when its chat template hides a slot."""
        start_ids = []
        if self.chat and getattr(tokenizer, "chat_template", None):
            rendered_parts = _render_template(self, tokenizer)
        else:
            rendered_parts = [*_joined_parts(self)]
            start_ids = start_token_ids(tokenizer)
        texts = [""]  # before, between and behind the slots
        slots = []
        for part in rendered_parts:
            if isinstance(part, Slot):
                slots.append(part)
                texts.append("")
            else:
                texts[-1] += part
        first_ids, *other_ids = tokenize_texts(tokenizer, texts, is_trusted=True)
        bound_parts: list[tuple[int, ...] | Slot] = [tuple(start_ids), tuple(first_ids)]
        for slot, ids in zip(slots, other_ids, strict=True):
            bound_parts += [slot, tuple(ids)]
        filled_parts = tuple(part for part in bound_parts if part)
        return BoundLayout(self.name, filled_parts, tokenizer)


SCQ = Layout(
    "scq", ("Question: ", QUERY), system=(INSTRUCTION + "\n\nPassage:\n", PASSAGE)
)
"""System text, passage, question: the paper's own order, and the default."""
LISTWISE = Layout(
    "listwise",
    (
        "Here are some passages.\n\n",
        PASSAGE,
        "\n\nFind the passages that help to answer this question.\nQuestion: ",
        QUERY,
    ),
)
"""One question over all passages, each in the passage's place: for attention heads."""

LAYOUTS = {layout.name: layout for layout in (SCQ, LISTWISE)}


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """One prompt as token ids. The spans are half-open ranges of positions in ``ids``.

    ``prefix_length`` is how many leading ids do not depend on the question.
    """

    ids: tuple[int, ...]
    passage_span: tuple[int, int] = (0, 0)
    query_span: tuple[int, int] = (0, 0)
    prefix_length: int = 0


POOLINGS: Mapping[str, tuple[str, ...]] = {
    "last": ("last",),
    "mean_question": ("question",),
    "last_mean_question": ("last", "question"),
}
"""The parts of each pooling, one after the other, each as wide as the model: the last token's state, or the mean
over the question's tokens (0 for none)."""


def pooling_parts(pooling: str) -> tuple[str, ...]:
    """The parts of a pooling. Raises `InputError` for an unknown name."""
    if pooling not in POOLINGS:
        raise InputError(
            f"pooling={pooling!r}: expected one of {', '.join(map(repr, POOLINGS))}"
        )
    return POOLINGS[pooling]


def part_span(part: str, prompt: TokenPrompt) -> tuple[int, int]:
    """The positions in the prompt that a part is the mean of, half-open."""
    if part == "question":
        return prompt.query_span
    token_count = len(prompt.ids)
    return token_count - 1, token_count


@dataclass(frozen=True, slots=True)
class BoundLayout:
    """A layout in the ids of one tokenizer."""

    name: str
    parts: tuple[tuple[int, ...] | Slot, ...]
    tokenizer: Any

    @property
    def fingerprint(self) -> str:
        """``name:hash`` of the parts as ids; changes with wording, chat template and vocabulary."""
        plain_parts: list[Any] = []
        for part in self.parts:
            plain_parts.append(part.value if isinstance(part, Slot) else list(part))
        # The empty list is from an earlier form: fingerprints of saved probes have it.
        contents_json = json.dumps([plain_parts, []])
        digest = hashlib.sha256(contents_json.encode()).hexdigest()
        return f"{self.name}:{digest[:16]}"

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt besides passage and question."""
        return len(self.assemble((), ()).ids)

    @property
    def slots(self) -> list[Slot]:
        """The slots in their order."""
        return [part for part in self.parts if isinstance(part, Slot)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts from outside. Text that spells a special token stays text."""
        return tokenize_texts(self.tokenizer, texts, is_trusted=False)

    def assemble(self, passage: Sequence[int], query: Sequence[int]) -> TokenPrompt:
        """The prompt of one passage and one query, both as token ids."""
        ids: list[int] = []
        slot_ids = {PASSAGE: passage, QUERY: query}
        slot_spans = {PASSAGE: (0, 0), QUERY: (0, 0)}
        for part in self.parts:
            start = len(ids)
            if isinstance(part, Slot):
                ids += slot_ids[part]
                slot_spans[part] = (start, len(ids))
            else:
                ids += part
        prefix_length = len(ids)
        if QUERY in self.slots:
            prefix_length = slot_spans[QUERY][0]
        return TokenPrompt(
            tuple(ids), slot_spans[PASSAGE], slot_spans[QUERY], prefix_length
        )


def _render_template(layout: Layout, tokenizer: Any) -> list[LayoutPart]:
    """The conversation as the chat template writes it, cut at the slots."""
    template = tokenizer.get_chat_template()
    if "strftime_now" in template:
        template = _FIXED_DAY + template
    turns: list[tuple[str, Sequence[LayoutPart]]] = [("user", layout.parts)]
    if layout.system:
        turns.insert(0, ("system", layout.system))
    try:
        return render_chat(tokenizer, turns, template=template)
    except InputError as error:
        raise InputError(
            f"layout {layout.name!r}: {error}; give Layout(..., chat=False)"
        ) from error


def _joined_parts(layout: Layout) -> tuple[LayoutPart, ...]:
    """All parts as one text."""
    if not layout.system:
        return layout.parts
    return (*layout.system, "\n\n", *layout.parts)
