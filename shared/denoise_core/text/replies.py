"""Removes reasoning blocks, channels, turn tokens and fences from a model's reply; parses JSON and number lists.

Markup is removed only at the very beginning or end, so that a text *about* such tags keeps them. Every
function is linear in the length of the reply.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from denoise_core.errors import UnparsableReply

_REASONING_NAMES = "think|thinking|thought|thoughts|reasoning|reason|reflection|scratchpad|analysis|seed:think|internal"  # noqa: E501
_REASONING_START = re.compile(
    rf"\s{{0,9}}(?:<(?P<xml>{_REASONING_NAMES})(?:\s[^>\n]{{0,80}})?>|\[(?P<square>{_REASONING_NAMES})\]|◁(?P<kimi>think)▷"
    r"|<\|(?:START_THINKING|begin_of_thought|thinking|think)\|>|<\|channel>(?:thought|analysis)\b)",
    re.IGNORECASE,
)
_REASONING_END = re.compile(
    rf"</(?:{_REASONING_NAMES})>|\[/(?:{_REASONING_NAMES})\]|◁/think▷|<\|(?:END_THINKING|end_of_thought|/thinking|/think)\|>"
    r"|<channel\|>",
    re.IGNORECASE,
)
_ANY_REASONING_START = re.compile(
    _REASONING_START.pattern.removeprefix(r"\s{0,9}"), re.IGNORECASE
)
_TURN_BEGINS = re.compile(
    r"\s{0,9}(?:<s>|<bos>|<\|(?:begin_of_text|endoftext|python_tag)\|>"
    r"|<\|start_header_id\|>\s{0,9}\w+\s{0,9}<\|end_header_id\|>|<\|im_start\|>\s{0,9}assistant\b|<start_of_turn>\s{0,9}model\b"
    r"|<\|start\|>assistant|<\|assistant\|>|<\|message\|>|<\|(?:START_RESPONSE|begin_of_solution|begin_of_box)\|>"
    r"|<\|START_OF_TURN_TOKEN\|>|<\|CHATBOT_TOKEN\|>|<｜Assistant｜>|\[/INST\])",
    re.IGNORECASE,
)
_TURN_ENDS = re.compile(
    r"(?:</s>|<eos>|<end_of_turn>|<end_of_utterance>|<\|[\w/ -]{1,30}\|>|<｜[^｜<>\n]{1,30}｜>|\[/?INST\]"
    r"|\[EOS\])\s{0,9}\Z"
)
_NEXT_TURN = re.compile(
    r"(?:<\|(?:im_end|eot_id|eom_id|end|end_of_turn|end_of_text|endoftext)\|>|<end_of_turn>|</s>)\s{0,9}"
    r"(?:<\|im_start\|>|<\|start_header_id\|>|<\|start\|>|<start_of_turn>|\[INST\]|<\|user\|>|(?:Human|User|Assistant)\s{0,2}:)"
)
_FINAL_CHANNEL = re.compile(
    r"<\|channel\|>\s{0,9}final[^<\n]{0,60}<\|message\|>", re.IGNORECASE
)
_WRAPPER_TAGS = frozenset(
    ["response", "answer", "output", "result", "reply", "final_answer", "final"]
)
_TRUNCATED_REASONING = "the reply ends inside its thinking"


def strip_reasoning(reply: str) -> str:
    """The reply's answer text, without reasoning and markup.

    Raises `UnparsableReply` when it ends before its answer begins: an open thinking block, no final channel.
    """
    text = _final_channel(reply)
    text = _without_thoughts(text)
    if next_turn := _NEXT_TURN.search(text):
        text = text[: next_turn.start()]
    end = len(text)
    while turn_end := _TURN_ENDS.search(text, max(0, end - 80), end):
        end = turn_end.start()
    return strip_fence(strip_tag(text[:end]))


def strip_tag(text: str) -> str:
    """The text without a tag around the whole of it that models wrap replies in."""
    text = text.strip()
    name, closing_mark, _ = text[1:].partition(">")
    if text.startswith("<") and closing_mark and name.lower() in _WRAPPER_TAGS:
        end = f"</{name}>"
        if text.lower().endswith(end.lower()):
            return text[len(name) + 2 : -len(end)].strip()
    return text


def strip_fence(text: str) -> str:
    """The text without a code fence around the whole of it; one on a single line has no language name."""
    text = text.strip()
    for fence_mark in ("```", "~~~"):
        inner_text = text[3:-3]
        if (
            text.startswith(fence_mark)
            and text.endswith(fence_mark)
            and len(text) >= 6
            and fence_mark not in inner_text
        ):
            first, line_break, later_lines = inner_text.partition("\n")
            return (
                later_lines if line_break and _is_language(first) else inner_text
            ).strip()
    return text


def _is_language(text: str) -> bool:
    """Whether a line is what comes after the mark that opens a fence: one word, or nothing."""
    return not text.strip() or text.strip().translate(_NO_SIGNS).isalnum()


_NO_SIGNS = str.maketrans("", "", "+-_")


def parse_whole_json(text: str) -> Any:
    """The JSON value that the whole text is; None where it is none.

    Typographic quotes are read as plain ones where the text is no JSON otherwise. An object with a key twice is
    no JSON.
    """
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    json_value = _load_json(text)
    return (
        _load_json(text.translate(_TYPOGRAPHIC_MARKS))
        if json_value is None
        else json_value
    )


_NUMBER_SEPARATORS = {
    "",
    ",",
    ";",
    "\n",
    ",\n",
    ";\n",
}  # of numbers, without the blanks in them


def parse_number_ranges(text: str) -> list[tuple[int, int]] | None:
    """The numbers and ranges (``2, 5-7``) that the text lists, first and last of each; None for other text.

    The text is read once from left to right: there is nothing to go back to.

    >>> parse_number_ranges("2, 5-7"), parse_number_ranges("2 are relevant")
    ([(2, 2), (5, 7)], None)
    """
    ranges = []
    separator = ","
    is_range = True
    for is_number, characters in itertools.groupby(text, str.isdecimal):
        run_text = "".join(characters)
        if not is_number:
            separator = run_text.replace(" ", "").replace("\t", "")
        elif len(run_text) <= 6 and separator in _NUMBER_SEPARATORS:
            ranges.append((int(run_text), int(run_text)))
            is_range = False
        elif len(run_text) <= 6 and separator in ("-", "-\n") and not is_range:
            ranges[-1] = (ranges[-1][0], int(run_text))
            is_range = True
        else:
            return None
    if not text[:1].isdecimal() or not text[-1:].isdecimal():
        return None
    return ranges


_TYPOGRAPHIC_MARKS = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "’": "'", "，": ",", "：": ":"}
)


def _final_channel(text: str) -> str:
    reply_head = text.lstrip()[:400]
    if reply_head.startswith(("<|channel|>", "<|start|>")):
        final_marks = list(_FINAL_CHANNEL.finditer(text))
        if final_marks:
            return text[final_marks[-1].end() :]
        if "<|channel|>" in reply_head:
            raise UnparsableReply(_TRUNCATED_REASONING + ": no final channel")
    if (
        reply_head.startswith("analysis")
        and (offset := text.rfind("assistantfinal")) > 0
    ):
        return text[offset + len("assistantfinal") :]
    return text


def _without_thoughts(text: str) -> str:
    offset = 0
    may_be_open = True
    while True:
        if reply_head := _TURN_BEGINS.match(text, offset):
            offset = reply_head.end()
            continue
        if _REASONING_START.match(text, offset):
            end_match = _REASONING_END.search(text, offset)
            if end_match is None:
                raise UnparsableReply(_TRUNCATED_REASONING)
            offset = end_match.end()
            continue
        # A closing tag without its opening one: the template had opened the block already.
        end_match = _REASONING_END.search(text, offset) if may_be_open else None
        start_match = _ANY_REASONING_START.search(text, offset) if end_match else None
        if end_match is None or (
            start_match is not None and start_match.start() < end_match.start()
        ):
            return text[offset:]
        offset = end_match.end()
        may_be_open = False


def _load_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        return None


def _unique_keys(key_values: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in key_values}) != len(key_values):
        raise ValueError("a key occurs twice")
    return dict(key_values)
