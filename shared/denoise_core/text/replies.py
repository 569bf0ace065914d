"""A model's reply without its manners: thinking, channels, turn tokens and fences go, what it says stays.

Only what stands at the very beginning or end is taken off, so that a text *about* such tags keeps them. Every
function is linear in the length of the reply.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from denoise_core.errors import UnparsableReply

_THOUGHTS = "think|thinking|thought|thoughts|reasoning|reason|reflection|scratchpad|analysis|seed:think|internal"
_OPEN = re.compile(
    rf"\s{{0,9}}(?:<(?P<xml>{_THOUGHTS})(?:\s[^>\n]{{0,80}})?>|\[(?P<square>{_THOUGHTS})\]|◁(?P<kimi>think)▷"
    r"|<\|(?:START_THINKING|begin_of_thought|thinking|think)\|>|<\|channel>(?:thought|analysis)\b)",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"</(?:{_THOUGHTS})>|\[/(?:{_THOUGHTS})\]|◁/think▷|<\|(?:END_THINKING|end_of_thought|/thinking|/think)\|>"
    r"|<channel\|>",
    re.IGNORECASE,
)
_ANY_OPEN = re.compile(_OPEN.pattern.removeprefix(r"\s{0,9}"), re.IGNORECASE)
_TURN_BEGINS = re.compile(
    r"\s{0,9}(?:<s>|<bos>|<\|begin_of_text\|>|<\|endoftext\|>"
    r"|<\|start_header_id\|>\s{0,9}\w+\s{0,9}<\|end_header_id\|>|<\|im_start\|>\s{0,9}assistant\b|<start_of_turn>\s{0,9}model\b"
    r"|<\|start\|>assistant|<\|assistant\|>|<\|message\|>|<\|(?:START_RESPONSE|begin_of_solution)\|>"
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
_FINAL = re.compile(r"<\|channel\|>\s{0,9}final[^<\n]{0,60}<\|message\|>", re.IGNORECASE)
_FENCE = re.compile(
    r"^[ \t]{0,9}(`{3,}|~{3,})[ \t]{0,9}([\w+-]*)[ \t]{0,9}\n(.*?)\n?[ \t]{0,9}\1[ \t]{0,9}$",
    re.DOTALL | re.MULTILINE,
)
_WRAPPER = re.compile(
    r"\A<(response|answer|output|result|reply|final_answer|final)>\s{0,9}(.*?)\s{0,9}</\1>\Z",
    re.DOTALL | re.IGNORECASE,
)
_CUT_OFF = "the reply ends inside its thinking"


def said(reply: str) -> str:
    """What the reply says, stripped.

    Raises `UnparsableReply` when it ends before its answer begins: an open thinking block, no final channel.
    """
    text = _final_channel(reply)
    text = _without_thoughts(text)
    if following := _NEXT_TURN.search(text):
        text = text[: following.start()]
    while ending := _TURN_ENDS.search(text, max(0, len(text) - 80)):
        text = text[: ending.start()]
    text = text.strip()
    if wrapped := _WRAPPER.match(text):
        text = wrapped[2]
    return unfenced(text)


def unfenced(text: str) -> str:
    """The text without a code fence around the whole of it; one on a single line has no language name."""
    text = text.strip()
    for mark in ("```", "~~~"):
        inner = text[3:-3]
        if text.startswith(mark) and text.endswith(mark) and len(text) >= 6 and mark not in inner:
            first, broken, rest = inner.partition("\n")
            named = re.fullmatch(r"[\w+-]*\s{0,9}", first) is not None
            return (rest if broken and named else inner).strip()
    return text


def fenced(text: str) -> list[str]:
    """The contents of the code fences in ``text``, in order."""
    if text.count("```") + text.count("~~~") > 200:
        return []  # no reply to what we ask; and the pattern would look for each fence's end anew
    return [m[3].strip() for m in _FENCE.finditer(text)]


def json_in(text: str) -> Any:
    """The JSON value that the text is, or holds in its only fence, or as its last object; None without one.

    Typographic quotes are read as plain ones where the text is no JSON otherwise. A key that stands twice is none.
    Raises `UnparsableReply` when the object before the last one says otherwise.
    """
    for candidate in [text, *fenced(text)[-1:]]:
        candidate = candidate.strip()
        if candidate.startswith(("{", "[")):
            for form in (candidate, candidate.translate(_QUOTES)):
                value = _loads(form)
                if value is not None:
                    return value
    value, start = _last_object(text)
    if value is not None:
        earlier, _ = _last_object(text[:start])
        if earlier is not None and any(k in value and value[k] != v for k, v in earlier.items()):
            raise unparsable("one object, or two that agree", text)
    return value


def _last_object(text: str) -> tuple[dict[str, Any] | None, int]:
    """The last JSON object in a text, and where it begins."""
    end = text.rfind("}")
    start = text.rfind("{", 0, max(0, end))
    for _ in range(20):  # a reply has its object at the end, with few braces inside
        if start < 0:
            break
        value = _loads(text[start : end + 1])
        if isinstance(value, dict):
            return value, start
        start = text.rfind("{", max(0, start - 2000), start)
    return None, 0


_SEPARATORS = {"", ",", ";", "\n", ",\n", ";\n"}
_LONGEST_NUMBER = 6  # digits


def number_ranges(text: str) -> list[tuple[int, int]] | None:
    """The numbers and ranges that the text lists, first and last of each; None when it holds anything else.

    Numbers are parted by a comma, a semicolon, one line break or blanks, the ends of a range by a hyphen. The
    text is read once from left to right: there is nothing to go back to.

    >>> number_ranges("2, 5-7")
    [(2, 2), (5, 7)]
    >>> number_ranges("2 are relevant") is None
    True
    """
    ranges: list[tuple[int, int]] = []
    separator = ","
    closes_range = False
    for is_number, characters in itertools.groupby(text, str.isdecimal):
        run = "".join(characters)
        if not is_number:
            separator = run.replace(" ", "").replace("\t", "")
            continue
        if len(run) > _LONGEST_NUMBER:
            return None
        number = int(run)
        if separator in ("-", "-\n"):
            if not ranges or closes_range:
                return None
            ranges[-1] = (ranges[-1][0], number)
            closes_range = True
        elif separator in _SEPARATORS:
            ranges.append((number, number))
            closes_range = False
        else:
            return None
    ends_in_number = text[-1:].isdecimal() and text[:1].isdecimal()
    return ranges if ends_in_number else None


def unparsable(expected: str, reply: str) -> UnparsableReply:
    """The error that says what was expected and how the reply begins."""
    begins = reply.strip()[:80]
    return UnparsableReply(f"{expected}; the reply begins {begins!r}" if begins else "the reply is empty")


_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "’": "'", "，": ",", "：": ":"})


def _final_channel(text: str) -> str:
    head = text.lstrip()[:400]
    if head.startswith(("<|channel|>", "<|start|>")):
        finals = list(_FINAL.finditer(text))
        if finals:
            return text[finals[-1].end() :]
        if "<|channel|>" in head:
            raise UnparsableReply(_CUT_OFF + ": no final channel")
    if head.startswith("analysis") and (at := text.rfind("assistantfinal")) > 0:
        return text[at + len("assistantfinal") :]
    return text


def _without_thoughts(text: str) -> str:
    at, orphan = 0, True
    while True:
        if head := _TURN_BEGINS.match(text, at):
            at = head.end()
            continue
        if _OPEN.match(text, at):
            close = _CLOSE.search(text, at)
            if close is None:
                raise UnparsableReply(_CUT_OFF)
            at = close.end()
            continue
        # A closing tag without its opening one: the template had opened the block already.
        close = _CLOSE.search(text, at) if orphan else None
        opened = _ANY_OPEN.search(text, at) if close else None
        if close is None or (opened is not None and opened.start() < close.start()):
            return text[at:]
        at, orphan = close.end(), False


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)
