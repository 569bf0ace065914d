"""Written replies: a context, a context and a question, a text for each document, a question alone.

Labels are taken in the languages that models answer in. What stands behind them is left as it is, but for a
remark to the reader at the end ("Let me know ...") and quotation marks around the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.s2a.replies import labels
from denoise_core.text.replies import fenced, json_in, said, unfenced, unparsable


@dataclass(frozen=True, slots=True)
class Fields:
    """The two fields of a rewriting reply. ``context`` is "" when the model said that nothing is left."""

    context: str
    question: str


def context(reply: str) -> str:
    """The text behind the context's label; "" when the reply says that nothing is left.

    Raises `UnparsableReply` when the reply has neither that label nor says so.
    """
    text = _field_text(reply)
    data = json_in(text)
    if isinstance(data, dict):
        value = _named(data, labels.CONTEXTS)
        if isinstance(value, str):
            return _something(value)
        raise unparsable("no field 'context' that is a text", reply)
    if found := labels.XML_CONTEXT.search(text):
        return _something(found[2])
    start = _context_from(text)
    if start is None:
        if labels.NOTHING.match(text):
            return ""
        raise unparsable("no line 'Context:'", reply)
    rest = _without_question(text[start:])
    if labels.NOTHING.match(rest):
        return ""
    return _something(_without_remarks(rest))


def fields(reply: str) -> Fields:
    """The context and the question of a two-field reply, in either order.

    The last question label counts, because the text itself may hold such lines. Raises `UnparsableReply` when a
    field is missing or the question is empty.
    """
    text = _field_text(reply)
    data = json_in(text)
    if isinstance(data, dict):
        known, asked = _named(data, labels.CONTEXTS), _named(data, labels.QUESTIONS)
        if isinstance(known, str) and isinstance(asked, str) and asked.strip():
            return Fields(_something(known), _unquoted(asked.strip()))
        raise unparsable("no fields 'context' and 'question' that are texts", reply)
    xml = labels.XML_CONTEXT.search(text), labels.XML_QUESTION.search(text)
    if xml[0] and xml[1]:
        return _fields(xml[0][2], xml[1][2], reply)
    contexts, questions = list(_labels(text, labels.CONTEXT)), list(_labels(text, labels.QUESTION))
    start = _context_from(text)
    if start is None:
        raise unparsable("no line 'Context:'", reply)
    if not questions:
        raise unparsable("no line 'Question:'", reply)
    before = [q for q in questions if q[1] <= (contexts[0][0] if contexts else start)]
    if len(before) == len(questions):
        return _fields(_without_remarks(text[start:]), text[before[-1][1] : contexts[0][0]], reply)
    last = questions[-1]
    return _fields(text[start : last[0]], _without_remarks(text[last[1] :]), reply)


def documents(reply: str, count: int) -> dict[int, str]:
    """The text of each document ``1..count`` that has a heading; "" for one said to have nothing left.

    Raises `UnparsableReply` without headings, for one that stands twice, and for a document that was not asked
    about.
    """
    text = _without_question(_field_text(reply))
    if label := labels.CONTEXT.match(text):
        text = text[label.end() :]
    data = json_in(text)
    found: list[tuple[int, str]] = []
    if isinstance(data, dict):
        for key, value in data.items():
            number = re.fullmatch(
                rf"(?:\[?(?:{labels.DOCUMENT})[ _]?)?(\d{{1,6}})\]?", str(key).strip(), re.IGNORECASE
            )
            if not number or not isinstance(value, str):
                raise unparsable("a key that names no document, or a document without a text", reply)
            found.append((int(number[1]), value))
    elif xml := labels.XML_DOCUMENT.findall(text):
        found = [(int(n), inner) for n, inner in xml]
    else:
        headings = list(labels.HEADING.finditer(text))
        ends = [*(h.start() for h in headings[1:]), len(text)]
        found = [(int(next(g for g in h.groups() if g)), text[h.end() : end]) for h, end in zip(headings, ends)]
        if found:
            found[-1] = (found[-1][0], _without_remarks(found[-1][1]))
    if not found and labels.NOTHING.match(text):
        return dict.fromkeys(range(1, count + 1), "")
    numbers = [n for n, _ in found]
    if not found:
        raise unparsable(f"no line [document N] in a reply about {count} documents", reply)
    if len(set(numbers)) != len(numbers) or not all(1 <= n <= count for n in numbers):
        raise unparsable(f"expected each of the documents 1 to {count} at most once, got {numbers[:10]}", reply)
    return {n: _one_document(inner) for n, inner in found}


def question(reply: str) -> str:
    """A reply that is a question or a request. Raises `UnparsableReply` for anything else, such as an answer."""
    text = _field_text(reply)
    data = json_in(text)
    if isinstance(data, dict):
        value = _named(data, labels.QUESTIONS)
        if not isinstance(value, str):
            raise unparsable("no field 'question' that is a text", reply)
        text = value
    elif xml := labels.XML_QUESTION.search(text):
        text = xml[2]
    marked = list(_labels(text, labels.QUESTION))
    if marked:
        text = text[marked[-1][1] :]
    text = _unquoted(_without_remarks(_without_preamble(text)).strip())
    if not text or labels.REFUSES.match(text) or labels.ASKS_BACK.search(text):
        raise unparsable("expected a question", reply)
    asks = text.count("?") + text.count("？") + text.count("؟")
    if len(labels.OPTIONS.findall(text)) > 1 and asks > 1:
        raise unparsable("several questions to choose from", reply)
    if not asks and not marked and not labels.REQUEST.match(text):
        raise unparsable("expected a question or a request", reply)
    return text


def message(reply: str) -> str:
    """An unpartitioned rewrite. Raises `UnparsableReply` when it is empty or a refusal."""
    text = _without_preamble(_field_text(reply))
    if label := labels.CONTEXT.match(text):
        text = text[label.end() :]
    lines = [
        labels.QUESTION.sub("", line, count=1) if labels.QUESTION.match(line) else line
        for line in text.splitlines()
    ]
    text = _unquoted(_without_remarks("\n".join(lines)).strip())
    if not text or labels.REFUSES.match(text):
        raise unparsable("expected a text", reply)
    return text


def asked_in(text: str) -> str:
    """What a message without fields asks: from its first question or order on; all of it when there is none."""
    cut = re.split(r"(?<=[.!?。！？؟])\s{1,9}|\n+", text)
    for n, sentence in enumerate(cut):
        if _ASKED.search(sentence) or is_request(sentence):
            return " ".join(cut[n:]).strip()
    return text


_ASKED = re.compile(r"[?？؟]")


def is_request(text: str) -> bool:
    """Whether a text begins as an order does: "List the ...", "Summarise ..."."""
    return labels.REQUEST.match(text) is not None


def _field_text(reply: str) -> str:
    text = said(reply, begins=labels.BEGINS)
    inner = fenced(text)
    if len(inner) == 1 and labels.BEGINS.match(inner[0]) and not labels.BEGINS.match(text):
        return inner[0]
    if len(inner) == 1 and text.startswith(("```", "~~~")):
        return unfenced(inner[0])
    return text


def _labels(text: str, label: re.Pattern[str]) -> list[tuple[int, int]]:
    """``(start, end)`` of the labels that begin a line."""
    found = []
    at = 0
    for line in text.splitlines(keepends=True):
        if len(line) < 200_000 and (m := label.match(line)):
            found.append((at, at + m.end()))
        at += len(line)
    return found


def _context_from(text: str) -> int | None:
    """Where the context begins: behind its first label, which may stand behind a sentence of preamble."""
    marked = _labels(text, labels.CONTEXT)
    inline = labels.AFTER_PREAMBLE.match(text)
    if marked and (not inline or marked[0][0] < inline.end()):
        return marked[0][1]
    return inline.end() if inline else None


def _fields(known: str, asked: str, reply: str) -> Fields:
    asked = _unquoted(_without_remarks(asked).strip())
    if not asked:
        raise unparsable("an empty question", reply)
    return Fields(_something(known), asked)


def _one_document(text: str) -> str:
    start = _context_from(text.strip())
    text = text.strip()[start:] if start is not None else text
    return "" if labels.NOTHING.match(text) else _something(text)


def _named(data: dict[str, object], names: str) -> object:
    for key, value in data.items():
        if re.fullmatch(rf"(?:(?:{labels.ADJECTIVES})[ _])?(?:{names})", str(key).strip(), re.IGNORECASE):
            return value
    return None


def _something(text: str) -> str:
    text = text.strip()
    return "" if labels.ONLY_NOTHING.match(text) else _unquoted(text)


def _unquoted(text: str) -> str:
    """Without one pair of quotation marks around the whole."""
    for opening, closing in labels.PAIRS:
        inner = text[1:-1]
        if (
            len(text) > 2
            and text[0] == opening
            and text[-1] == closing
            and opening not in inner
            and closing not in inner
        ):
            return inner.strip()
    return text


def _without_question(text: str) -> str:
    """Without a question field of one line at the end, which was not asked for."""
    asked = _labels(text, labels.QUESTION)
    last = text[asked[-1][1] :].strip() if asked else ""
    return text[: asked[-1][0]] if last.endswith(("?", "？", "؟")) and "\n" not in last else text


def _without_preamble(text: str) -> str:
    """Without a first paragraph or line that only announces what follows."""
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().endswith((":", "：")) and not labels.QUESTION.match(first):
        return unfenced(rest.strip())
    return unfenced(text)


def _without_remarks(text: str) -> str:
    """Without what is said to the reader behind the text: paragraphs that remark on it, or that follow a rule."""
    text = text.rstrip()
    while True:
        at = text.rstrip().rfind("\n\n")
        last = text[at:].strip() if at >= 0 else ""
        if at >= 0 and (labels.REMARK.match(last) or labels.RULE.fullmatch(last)):
            text = text[:at].rstrip()
            continue
        return text
