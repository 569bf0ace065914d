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
    empty line between ``system`` and ``parts``. ``pair`` is the encoders' form, question and passage as the
    tokenizer joins two texts; it has no parts.

    Raises `InputError` for a layout without a passage slot or with a slot twice.
    """

    name: str
    parts: tuple[LayoutPart, ...] = ()
    system: tuple[LayoutPart, ...] = ()
    chat: bool = True
    pair: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "system", tuple(self.system))
        all_parts = self.system + self.parts
        if self.pair and all_parts:
            raise InputError(
                f"layout {self.name!r}: a pair layout is the tokenizer's own and takes no parts"
            )
        if not self.pair and PASSAGE not in all_parts:
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
        if self.pair:
            return _bind_pair(self, tokenizer)
        start_ids: list[int] = []
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
        bound_parts: list[tuple[int, ...] | Slot] = [
            tuple(start_ids),
            tuple(first_ids),
        ]
        for slot, ids in zip(slots, other_ids, strict=True):
            bound_parts += [slot, tuple(ids)]
        filled_parts = tuple(part for part in bound_parts if part)
        return BoundLayout(self.name, filled_parts, tokenizer)


SCQ = Layout(
    "scq", ("Question: ", QUERY), system=(INSTRUCTION + "\n\nPassage:\n", PASSAGE)
)
"""System text, passage, question: the paper's own order, and the default for decoders."""
PAIR = Layout("pair", pair=True)
"""Question and passage as an encoder's tokenizer joins two texts: the default for encoders."""
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

LAYOUTS = {layout.name: layout for layout in (SCQ, PAIR, LISTWISE)}


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """One prompt as token ids. The spans are half-open ranges of positions in ``ids``.

    ``prefix_length`` is how many leading ids do not depend on the question; ``segment_ids`` are the segment
    ids that
    some encoders take, one for each id, or () for none.
    """

    ids: tuple[int, ...]
    passage_span: tuple[int, int] = (0, 0)
    query_span: tuple[int, int] = (0, 0)
    prefix_length: int = 0
    segment_ids: tuple[int, ...] = ()


POOLINGS: Mapping[str, tuple[str, ...]] = {
    "last": ("last",),
    "mean_question": ("question",),
    "last_mean_question": ("last", "question"),
    "cls_mean_question": ("first", "passage", "question"),
}
"""The parts of each pooling, one after the other, each as wide as the model: the first or the last token's state,
or the mean over the tokens of passage or question (0 for none)."""


def pooling_parts(pooling: str) -> tuple[str, ...]:
    """The parts of a pooling. Raises `InputError` for an unknown name."""
    if pooling not in POOLINGS:
        raise InputError(
            f"pooling={pooling!r}: expected one of {', '.join(map(repr, POOLINGS))}"
        )
    return POOLINGS[pooling]


def pools_question_only(pooling: str) -> bool:
    """Whether the pooled state needs no token before the question, so that those may come from a cache."""
    return set(pooling_parts(pooling)) <= {"last", "question"}


def part_span(part: str, prompt: TokenPrompt) -> tuple[int, int]:
    """The positions in the prompt that a part is the mean of, half-open."""
    token_count = len(prompt.ids)
    return {
        "first": (0, 1),
        "last": (token_count - 1, token_count),
        "passage": prompt.passage_span,
        "question": prompt.query_span,
    }[part]


@dataclass(frozen=True, slots=True)
class BoundLayout:
    """A layout in the ids of one tokenizer. ``segment_ids`` are the segment ids of the parts, in order, or ()."""

    name: str
    parts: tuple[tuple[int, ...] | Slot, ...]
    tokenizer: Any
    segment_ids: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """``name:hash`` of the parts as ids; changes with wording, chat template and vocabulary."""
        plain_parts = [
            layout_part.value if isinstance(layout_part, Slot) else list(layout_part)
            for layout_part in self.parts
        ]
        contents_json = json.dumps([plain_parts, list(self.segment_ids)])
        digest = hashlib.sha256(contents_json.encode()).hexdigest()
        return f"{self.name}:{digest[:16]}"

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt besides passage and question."""
        return sum(
            len(layout_part)
            for layout_part in self.parts
            if not isinstance(layout_part, Slot)
        )

    @property
    def is_prefix_reusable(self) -> bool:
        """Whether the passage comes before the question, so that its keys and values can be kept."""
        slot_order = [
            layout_part for layout_part in self.parts if isinstance(layout_part, Slot)
        ]
        return slot_order[0] is PASSAGE

    @property
    def is_question_last(self) -> bool:
        """Whether the question follows the passage, so that its tokens see both."""
        slot_order = []
        for layout_part in self.parts:
            if isinstance(layout_part, Slot):
                slot_order.append(layout_part)
        return slot_order == [PASSAGE, QUERY]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts from outside. Text that spells a special token stays text."""
        return tokenize_texts(self.tokenizer, texts, is_trusted=False)

    def assemble(self, passage: Sequence[int], query: Sequence[int]) -> TokenPrompt:
        """The prompt of one passage and one query, both as token ids."""
        ids: list[int] = []
        segment_ids: list[int] = []
        slot_spans = {PASSAGE: (0, 0), QUERY: (0, 0)}
        prefix_length: int | None = None
        for n, part in enumerate(self.parts):
            part_ids = (
                part
                if isinstance(part, tuple)
                else passage
                if part is PASSAGE
                else query
            )
            if isinstance(part, Slot):
                slot_end = len(ids) + len(part_ids)
                slot_spans[part] = (len(ids), slot_end)
                if part is QUERY:
                    prefix_length = len(ids)
            ids += part_ids
            if self.segment_ids:
                segment_ids += [self.segment_ids[n]] * len(part_ids)
        # Without a question every id is shared, but the last has to be run to have a state.
        return TokenPrompt(
            tuple(ids),
            slot_spans[PASSAGE],
            slot_spans[QUERY],
            len(ids) if prefix_length is None else prefix_length,
            tuple(segment_ids),
        )


def _render_template(layout: Layout, tokenizer: Any) -> list[LayoutPart]:
    """The conversation as the chat template writes it, cut at the slots."""
    template = tokenizer.get_chat_template()
    if "strftime_now" in template:
        template = _FIXED_DAY + template
    conversations = [[("user", _joined_parts(layout))]]
    if layout.system:
        # The first; the other is for templates that know no system message.
        turns = [("system", layout.system), ("user", layout.parts)]
        conversations.insert(0, turns)
    refusal = ""
    for conversation in conversations:
        try:
            return render_chat(tokenizer, conversation, template=template)
        except InputError as error:
            refusal = str(error)
    raise InputError(f"layout {layout.name!r}: {refusal}; give Layout(..., chat=False)")


def _joined_parts(layout: Layout) -> tuple[LayoutPart, ...]:
    """All parts as one text."""
    if not layout.system:
        return layout.parts
    return (*layout.system, "\n\n", *layout.parts)


def _bind_pair(layout: Layout, tokenizer: Any) -> BoundLayout:
    """[CLS] question [SEP] passage [SEP], or however the tokenizer joins two texts, taken from an example."""
    example = tokenizer("a", "b")
    ids = list(example["input_ids"])
    token_owners = example.sequence_ids()
    segment_ids = (
        list(example["token_type_ids"])
        if "token_type_ids" in tokenizer.model_input_names
        else []
    )
    query_positions = [
        position for position, owner in enumerate(token_owners) if owner == 0
    ]
    passage_positions = [
        position for position, owner in enumerate(token_owners) if owner == 1
    ]
    if not query_positions or not passage_positions:
        raise InputError(
            "the tokenizer cannot join two texts; give a Layout with parts of your own"
        )
    ranges: list[tuple[int, int, Slot | None]] = [
        (0, query_positions[0], None),
        (query_positions[0], query_positions[-1] + 1, QUERY),
        (query_positions[-1] + 1, passage_positions[0], None),
        (passage_positions[0], passage_positions[-1] + 1, PASSAGE),
        (passage_positions[-1] + 1, len(ids), None),
    ]
    filled_ranges = [
        (first_position, end_position, slot)
        for first_position, end_position, slot in ranges
        if end_position > first_position
    ]
    parts = tuple(
        slot or tuple(ids[first_position:end_position])
        for first_position, end_position, slot in filled_ranges
    )
    return BoundLayout(
        layout.name,
        parts,
        tokenizer,
        tuple(segment_ids[first_position] for first_position, _, _ in filled_ranges)
        if segment_ids
        else (),
    )
