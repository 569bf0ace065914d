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
_FINAL = re.compile(
    r"<\|channel\|>\s{0,9}final[^<\n]{0,60}<\|message\|>", re.IGNORECASE
)
_WRAPPERS = frozenset(
    ["response", "answer", "output", "result", "reply", "final_answer", "final"]
)
_CUT_OFF = "the reply ends inside its thinking"


def strip_reasoning(reply: str) -> str:
    """What the reply says, stripped.

    Raises `UnparsableReply` when it ends before its answer begins: an open thinking block, no final channel.
    """
    text = _final_channel(reply)
    text = _without_thoughts(text)
    if following := _NEXT_TURN.search(text):
        text = text[: following.start()]
    end = len(text)
    while ending := _TURN_ENDS.search(text, max(0, end - 80), end):
        end = ending.start()
    return strip_fence(strip_tag(text[:end]))


def strip_tag(text: str, names: frozenset[str] = _WRAPPERS) -> str:
    """The text without a tag around the whole of it, where the tag has one of the ``names``."""
    text = text.strip()
    name, closes, _ = text[1:].partition(">")
    if text.startswith("<") and closes and name.lower() in names:
        end = f"</{name}>"
        if text.lower().endswith(end.lower()):
            return text[len(name) + 2 : -len(end)].strip()
    return text


def strip_fence(text: str) -> str:
    """The text without a code fence around the whole of it; one on a single line has no language name."""
    text = text.strip()
    for mark in ("```", "~~~"):
        inner = text[3:-3]
        if (
            text.startswith(mark)
            and text.endswith(mark)
            and len(text) >= 6
            and mark not in inner
        ):
            first, broken, rest = inner.partition("\n")
            return (rest if broken and _is_language(first) else inner).strip()
    return text


def fenced_blocks(text: str) -> list[str]:
    """The contents of the code fences in ``text``, in order; an open one at the end is none."""
    contents: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        bare = line.strip(" \t")
        if fence and bare.endswith(
            fence
        ):  # models close a fence behind their last line, too
            lines.append(bare.removesuffix(fence))
            contents.append("\n".join(lines).strip())
            fence = ""
        elif fence:
            lines.append(line)
        elif bare.startswith(("```", "~~~")) and _is_language(
            language := bare.lstrip(bare[0])
        ):
            fence = bare.removesuffix(language)
            lines = []
    return contents


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
    value = _loads(text)
    return _loads(text.translate(_QUOTES)) if value is None else value


def parse_json(text: str) -> Any:
    """The JSON value that the text is, or holds in its last fence, or as its last object; None without one.

    Raises `UnparsableReply` when the object before the last one says otherwise.
    """
    for candidate in [text, *fenced_blocks(text)[-1:]]:
        value = parse_whole_json(candidate)
        if value is not None:
            return value
    value, start = _last_object(text)
    if value is not None:
        earlier, _ = _last_object(text[:start])
        if earlier is not None and any(
            k in value and value[k] != v for k, v in earlier.items()
        ):
            raise unparsable_reply("one object, or two that agree", text)
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


_SEPARATORS = {
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
    ranges: list[tuple[int, int]] = []
    separator, is_range = ",", True
    for is_number, characters in itertools.groupby(text, str.isdecimal):
        run = "".join(characters)
        if not is_number:
            separator = run.replace(" ", "").replace("\t", "")
        elif len(run) <= 6 and separator in _SEPARATORS:
            ranges.append((int(run), int(run)))
            is_range = False
        elif len(run) <= 6 and separator in ("-", "-\n") and not is_range:
            ranges[-1] = (ranges[-1][0], int(run))
            is_range = True
        else:
            return None
    return ranges if text[:1].isdecimal() and text[-1:].isdecimal() else None


def unparsable_reply(expected: str, reply: str) -> UnparsableReply:
    """The error that says what was expected and how the reply begins."""
    begins = reply.strip()[:80]
    return UnparsableReply(
        f"{expected}; the reply begins {begins!r}" if begins else "the reply is empty"
    )


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
