"""Texts as token ids, and conversations as the tokenizer's chat template writes them.

A template is rendered with marks instead of texts from outside, and cut at the marks: so
only the template's special tokens count, and a text's ids do not depend on what is around it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from denoise_core.errors import InputError

_tokenizer_lock = threading.Lock()


def tokenize_texts(
    tokenizer: Any, texts: Sequence[str], *, is_trusted: bool
) -> list[list[int]]:
    """Ids of each text, nothing added. Unless the text is trusted, what spells a special token stays text."""
    # A lone surrogate, as broken JSON has it, is no Unicode text and would stop the tokenizer.
    clean_texts = []
    for text in texts:
        text_bytes = text.encode("utf-8", "replace")
        clean_texts.append(text_bytes.decode("utf-8"))
    if not clean_texts:
        return []
    with _tokenizer_lock:  # whether special tokens count is a setting of the tokenizer object, not of the call
        all_parts = tokenizer(
            clean_texts,
            add_special_tokens=False,
            split_special_tokens=not is_trusted,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # longer than the window is expected here: the reader splits
        )
    id_lists = []
    for ids in all_parts["input_ids"]:
        id_lists.append(list(map(int, ids)))
    return id_lists


def start_token_ids(tokenizer: Any) -> list[int]:
    """What the tokenizer puts before a single text: a start token, or nothing."""
    ids_with_special = list(tokenizer("a", add_special_tokens=True)["input_ids"])
    plain_parts = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    for start_count in range(len(ids_with_special)):
        end = start_count + len(plain_parts)
        if ids_with_special[start_count:end] == plain_parts:
            return ids_with_special[:start_count]
    return []


def render_chat(
    tokenizer: Any,
    turns: Sequence[tuple[str, Sequence[Any]]],
    *,
    template: str | None = None,
) -> list[Any]:
    """A conversation as the chat template writes it, cut at the parts that are no strings.

    A template that knows no system message gets its parts in front of the next turn's.

    Args:
        tokenizer: Has a chat template.
        turns: Role and parts of each message. Strings are the caller's own words.
        template: Used instead of the tokenizer's own.

    Raises:
        InputError: The template refuses the conversation, or does not show each part once, in order.
    """
    try:
        return _render_turns(tokenizer, turns, template)
    except InputError:
        if len(turns) < 2 or turns[0][0] != "system":
            raise
    (_, system_parts), (role, parts), *later_turns = turns
    merged_turn = role, [*system_parts, "\n\n", *parts]
    return _render_turns(tokenizer, [merged_turn, *later_turns], template)


def _render_turns(
    tokenizer: Any, turns: Sequence[tuple[str, Sequence[Any]]], template: str | None
) -> list[Any]:
    part_of_mark: dict[str, Any] = {}
    messages = []
    for role, parts in turns:
        content = ""
        for part in parts:
            if isinstance(part, str):
                content += part
                continue
            mark = f"zzPART{len(part_of_mark)}zz"
            part_of_mark[mark] = part
            content += mark
        messages.append({"role": role, "content": content})
    try:
        text = tokenizer.apply_chat_template(
            messages,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception as error:  # jinja's own classes: a template refuses by raising
        raise InputError(
            f"the tokenizer's chat template refuses the messages: {error}"
        ) from error
    pieces = re.split(r"(zzPART\d{1,9}zz)", text)
    shown_marks = [piece for piece in pieces if piece in part_of_mark]
    if shown_marks != list(part_of_mark):
        raise InputError(
            "the tokenizer's chat template does not show the messages as they are, each once"
        )
    return [part_of_mark.get(piece, piece) for piece in pieces if piece]
