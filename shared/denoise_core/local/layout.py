"""How instruction S, passage C and question Q become one prompt, [S|C|Q] unless told otherwise.

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
import itertools
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from denoise_core.errors import InputError


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
    and ``parts`` as the user's, so that the boundary between them lies on the template's special tokens.
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
        given = self.system + self.parts
        if self.pair and given:
            raise InputError(
                f"layout {self.name!r}: a pair layout is the tokenizer's own and takes no parts"
            )
        if not self.pair and PASSAGE not in given:
            raise InputError(
                f"layout {self.name!r}: expected the slot PASSAGE among its parts, got {given!r}"
            )
        for slot in Slot:
            if given.count(slot) > 1:
                raise InputError(
                    f"layout {self.name!r}: the slot {slot.name} may stand there once"
                )

    def bind(self, tokenizer: Any) -> BoundLayout:
        """The layout in one tokenizer's ids. Raises `InputError` when its chat template hides a slot."""
        if self.pair:
            return _bind_pair(self, tokenizer)
        start: list[int] = []
        if self.chat and getattr(tokenizer, "chat_template", None):
            pieces = _rendered(self, tokenizer)
        else:
            pieces = [*self.system, *(("\n\n",) if self.system else ()), *self.parts]
            start = _special_start(tokenizer)
        bound: list[tuple[int, ...] | Slot] = [tuple(start)] if start else []
        for text, group in itertools.groupby(pieces, key=lambda p: isinstance(p, str)):
            if text:
                bound.append(
                    tuple(
                        tokenize_texts(
                            tokenizer, ["".join(map(str, group))], is_trusted=True
                        )[0]
                    )
                )
            else:
                bound += [p for p in group if isinstance(p, Slot)]
        return BoundLayout(self.name, tuple(p for p in bound if p != ()), tokenizer)


SCQ = Layout(
    "scq", ("Question: ", QUERY), system=(INSTRUCTION + "\n\nPassage:\n", PASSAGE)
)
"""System text, passage, question: the paper's own order, and the default for decoders."""
PAIR = Layout("pair", pair=True)
"""Question and passage as an encoder's tokenizer joins two texts: the default for encoders."""

LAYOUTS = {layout.name: layout for layout in (SCQ, PAIR)}


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """One prompt as token ids. The spans are half-open ranges of positions in ``ids``.

    ``shared`` is how many leading ids do not depend on the question; ``types`` are the segment ids that
    some encoders take, one for each id, or () for none.
    """

    ids: tuple[int, ...]
    passage_span: tuple[int, int]
    query_span: tuple[int, int]
    prefix_length: int
    segment_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundLayout:
    """A layout in the ids of one tokenizer. ``types`` are the segment ids of the parts, in order, or ()."""

    name: str
    parts: tuple[tuple[int, ...] | Slot, ...]
    tokenizer: Any
    segment_ids: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """``name:hash`` of the parts as ids; changes with wording, chat template and vocabulary."""
        plain = [p.value if isinstance(p, Slot) else list(p) for p in self.parts]
        blob = json.dumps([plain, list(self.segment_ids)]).encode()
        return f"{self.name}:{hashlib.sha256(blob).hexdigest()[:16]}"

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt besides passage and question."""
        return sum(len(p) for p in self.parts if not isinstance(p, Slot))

    @property
    def is_prefix_reusable(self) -> bool:
        """Whether the passage comes before the question, so that its keys and values can be kept."""
        order = [p for p in self.parts if isinstance(p, Slot)]
        return order[0] is PASSAGE

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts from outside. Text that spells a special token stays text."""
        return tokenize_texts(self.tokenizer, texts, is_trusted=False)

    def assemble(self, passage: Sequence[int], query: Sequence[int]) -> TokenPrompt:
        ids: list[int] = []
        types: list[int] = []
        spans = {PASSAGE: (0, 0), QUERY: (0, 0)}
        shared: int | None = None
        for n, part in enumerate(self.parts):
            new = (
                part
                if isinstance(part, tuple)
                else passage
                if part is PASSAGE
                else query
            )
            if isinstance(part, Slot):
                spans[part] = (len(ids), len(ids) + len(new))
                if part is QUERY:
                    shared = len(ids)
            ids += new
            if self.segment_ids:
                types += [self.segment_ids[n]] * len(new)
        # Without a question every id is shared, but the last has to be run to have a state.
        return TokenPrompt(
            tuple(ids),
            spans[PASSAGE],
            spans[QUERY],
            len(ids) if shared is None else shared,
            tuple(types),
        )


_tokenizing = threading.Lock()


def tokenize_texts(
    tokenizer: Any, texts: Sequence[str], *, is_trusted: bool
) -> list[list[int]]:
    """Ids of each text, nothing added. Unless it is our ``own_text``, what spells a special token stays text."""
    # A lone surrogate, as broken JSON has it, is no Unicode text and would stop the tokenizer.
    clean = [t.encode("utf-8", "replace").decode("utf-8") for t in texts]
    if not clean:
        return []
    with _tokenizing:  # whether special tokens count is a setting of the tokenizer object, not of the call
        given = tokenizer(
            clean,
            add_special_tokens=False,
            split_special_tokens=not is_trusted,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # longer than the window is expected here: the reader splits
        )
    return [list(map(int, ids)) for ids in given["input_ids"]]


def _special_start(tokenizer: Any) -> list[int]:
    """What the tokenizer puts before a single text: a start token, or nothing."""
    marked = list(tokenizer("a", add_special_tokens=True)["input_ids"])
    plain = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    for start in range(len(marked)):
        if marked[start : start + len(plain)] == plain:
            return marked[:start]
    return []


def _rendered(layout: Layout, tokenizer: Any) -> list[LayoutPart]:
    """The conversation as the chat template writes it, cut at the slots."""
    marks = {PASSAGE: "zzPASSAGEzz", QUERY: "zzQUESTIONzz"}
    system, user = (
        "".join(marks[p] if isinstance(p, Slot) else p for p in parts)
        for parts in (layout.system, layout.parts)
    )
    wanted = {slot for slot in marks if marks[slot] in system + user}
    conversations = [
        [{"role": "user", "content": "\n\n".join(t for t in (system, user) if t)}]
    ]
    if system:
        conversations.insert(
            0,
            [{"role": "system", "content": system}, {"role": "user", "content": user}],
        )
    template = tokenizer.get_chat_template()
    if "strftime_now" in template:
        template = _FIXED_DAY + template
    why = "it does not show the passage or the question as it is"
    for (
        conversation
    ) in conversations:  # the second is for templates that know no system message
        try:
            text = tokenizer.apply_chat_template(
                conversation,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=True,
            )
        except Exception as error:  # jinja's own classes: a template refuses by raising
            why = str(error)
            continue
        if all(text.count(marks[slot]) == 1 for slot in wanted):
            cut = re.split("(" + "|".join(marks.values()) + ")", text)
            slots = {mark: slot for slot, mark in marks.items()}
            return [slots.get(piece, piece) for piece in cut if piece]
    raise InputError(
        f"layout {layout.name!r}: the tokenizer's chat template cannot be used: {why}; "
        "give Layout(..., chat=False)"
    )


def _bind_pair(layout: Layout, tokenizer: Any) -> BoundLayout:
    """[CLS] question [SEP] passage [SEP], or however the tokenizer joins two texts, taken from an example."""
    example = tokenizer("a", "b")
    ids, owners = list(example["input_ids"]), example.sequence_ids()
    types = (
        list(example["token_type_ids"])
        if "token_type_ids" in tokenizer.model_input_names
        else []
    )
    first = [i for i, o in enumerate(owners) if o == 0]
    second = [i for i, o in enumerate(owners) if o == 1]
    if not first or not second:
        raise InputError(
            "the tokenizer cannot join two texts; give a Layout with parts of your own"
        )
    ranges: list[tuple[int, int, Slot | None]] = [
        (0, first[0], None),
        (first[0], first[-1] + 1, QUERY),
        (first[-1] + 1, second[0], None),
        (second[0], second[-1] + 1, PASSAGE),
        (second[-1] + 1, len(ids), None),
    ]
    filled = [(a, b, slot) for a, b, slot in ranges if b > a]
    parts = tuple(slot or tuple(ids[a:b]) for a, b, slot in filled)
    return BoundLayout(
        layout.name,
        parts,
        tokenizer,
        tuple(types[a] for a, _, _ in filled) if types else (),
    )
