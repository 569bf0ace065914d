"""Written replies: a context, a context and a question, a text for each document, a question alone.

Labels are taken in the languages that models answer in. What stands behind them is left as it is, but for a
remark to the reader at the end ("Let me know ...") and quotation marks around the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.s2a.replies import framing, labels
from denoise_core.text.replies import fenced, json_in, said, unfenced, unparsable


@dataclass(frozen=True, slots=True)
class Fields:
    """The two fields of a rewriting reply. ``context`` is "" when the model said that nothing is left."""

    context: str
    question: str


def context(reply: str) -> str:
    """The text behind the context's label; "" when the reply says that nothing is left.

    Raises `UnparsableReply` when the reply has neither that label nor says so, and when it holds more than the
    text, announcements and remarks.
    """
    text = _field_text(reply)
    data = json_in(text)
    if isinstance(data, dict):
        value = _named(data, labels.CONTEXTS)
        if isinstance(value, str):
            return _something(value)
        raise unparsable("no field 'context' that is a text", reply)
    if found := labels.XML_CONTEXT.search(text):
        if not framing.announces(text[: found.start()]):
            raise unparsable("a text that only announces its context", reply)
        return _something(found[2])
    start = _context_from(text, reply)
    if start is None:
        if labels.NOTHING.match(text) or labels.NO_CONTEXT.match(text):
            return ""
        raise unparsable("no line 'Context:'", reply)
    rest = _without_question(text[start:])
    if labels.NOTHING.match(rest):
        return ""
    return _field(rest, reply)


def fields(reply: str) -> Fields:
    """The context and the question of a two-field reply, in either order.

    The last question label counts, because the text itself may hold such lines. Raises `UnparsableReply` when a
    field is missing or empty, and when the reply holds more than the two, announcements and remarks.
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
        return Fields(_something(xml[0][2]), _asked(xml[1][2], reply))
    contexts, questions = list(_labels(text, labels.CONTEXT)), list(_labels(text, labels.QUESTION))
    start = _context_from(text, reply, after=questions[0][1] if questions else 0)
    if start is None:
        raise unparsable("no line 'Context:'", reply)
    if not questions:
        inline = _INLINE_QUESTION.search(text, start)
        if inline is None or _INLINE_QUESTION.search(text, inline.end()):
            raise unparsable("no line 'Question:'", reply)
        questions = [(inline.start(), inline.end())]
    before = [q for q in questions if q[1] <= (contexts[0][0] if contexts else start)]
    if len(before) == len(questions):
        return Fields(_field(text[start:], reply), _asked(text[before[-1][1] : contexts[0][0]], reply))
    last = questions[-1]
    known = _field(text[start : last[0]], reply)
    return Fields(known, _asked(text[last[1] :], reply))


def documents(reply: str, count: int) -> dict[int, str]:
    """The text of each document ``1..count`` that has a heading; "" for one said to have nothing left.

    Raises `UnparsableReply` without headings, for one that stands twice or has no text, and for a document that
    was not asked about.
    """
    text = _without_question(_field_text(reply))
    if label := labels.CONTEXT.match(text):
        text = text[label.end() :]
    data = json_in(text)
    found: list[tuple[int, str]] = []
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        data = {str(_of(item, _NUMBERS)): _of(item, _TEXTS) for item in data}
    if isinstance(data, dict):
        for key, value in data.items():
            number = re.fullmatch(
                rf"(?:\[?(?:{labels.DOCUMENT})[ _]?)?(\d{{1,6}})\]?", str(key).strip(), re.IGNORECASE
            )
            if not number or not isinstance(value, str):
                raise unparsable("a key that names no document, or a document without a text", reply)
            found.append((int(number[1]), _something(value)))
    elif xml := labels.XML_DOCUMENT.findall(text):
        found = [(int(n), _one_document(inner, reply)) for n, inner in xml]
    else:
        headings = list(labels.HEADING.finditer(text)) or list(labels.NUMBER_ALONE.finditer(text))
        ends = [*(h.start() for h in headings[1:]), len(text)] if headings else []
        if headings and not framing.announces(text[: headings[0].start()]):
            raise unparsable("a text before the first document", reply)
        found = [
            (int(next(g for g in h.groups() if g)), _one_document(text[h.end() : end], reply))
            for h, end in zip(headings, ends, strict=True)
        ]
    if not found and labels.NOTHING.match(text):
        return dict.fromkeys(range(1, count + 1), "")
    numbers = [n for n, _ in found]
    if not found:
        raise unparsable(f"no line [document N] in a reply about {count} documents", reply)
    if len(set(numbers)) != len(numbers) or not all(1 <= n <= count for n in numbers):
        raise unparsable(f"expected each of the documents 1 to {count} at most once, got {numbers[:10]}", reply)
    return dict(found)


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
    before = text[: marked[0][0]] if marked else ""
    announced = framing.announces(before) or labels.CONTEXT.match(before)  # a context field may stand first
    if len(marked) > 1 or (marked and not announced):
        raise unparsable("one question, and nothing before it", reply)
    text = text[marked[-1][1] :] if marked else framing.without_opener(_without_preamble(text))
    text = _asked(text, reply)
    if labels.REFUSES.match(text) or labels.ASKS_BACK.search(text):
        raise unparsable("expected a question", reply)
    asks = text.count("?") + text.count("？") + text.count("؟")
    if labels.CHOICES.search(text) or (len(labels.OPTIONS.findall(text)) > 1 and asks > 1):
        raise unparsable("several questions to choose from", reply)
    if not asks and not marked and not labels.REQUEST.match(text):
        raise unparsable("expected a question or a request", reply)
    return text


def message(reply: str) -> str:
    """An unpartitioned rewrite. Raises `UnparsableReply` when it is empty or a refusal."""
    text = _without_preamble(_field_text(reply))
    if label := labels.CONTEXT.match(text):
        text = text[label.end() :]
    lines = [line[label.end() :] if (label := labels.QUESTION.match(line)) else line for line in text.splitlines()]
    text = _unquoted((framing.without_remarks("\n".join(lines)) or "").strip())
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
_LAST_ASKED = re.compile(r"[?？؟]+")
_ELLIPSIS = re.compile(r"\A\s{0,9}(?:\.{2,9}|…|-{1,3}|–|—)\s{0,9}\Z")
_TWO = re.compile(
    r"[?？؟]\s{0,2}(?:/\s{0,2}\S|(?-i:or|oder|ou|o)\s\S)|^\W{0,6}original(?: question)?\W{0,3}:",
    re.I | re.MULTILINE,
)
_NO_QUESTION = re.compile(
    r"\b(?:no|keine|aucune|ninguna|nessuna) (?:\w{1,12} ){0,2}(?:question|request|frage|pregunta|domanda)\b",
    re.I,
)
_INLINE_QUESTION = re.compile(r"(?<=[.!?。！？])[ \t]{1,3}\*{0,2}Question\*{0,2}[:：]\*{0,2}[ \t]{1,3}")
_DOCUMENT_ENDS = re.compile(
    rf"\s{{0,9}}[\[<](?:/|end of )(?:{labels.DOCUMENT})[ _]?\d{{0,4}}[\]>]\Z", re.IGNORECASE
)
_WITH_ANOTHER = re.compile(r"\s{0,9}(?:and|und|et|y|e|&|,|\+)\s{0,3}[\[(【]", re.IGNORECASE)
_DASH = re.compile(r"\A(?:[-*•]|\d{1,2}[.)])[ \t]{1,9}")
_NUMBERS = frozenset(("document", "doc", "number", "id", "n", "index"))
_TEXTS = frozenset(("text", "context", "content", "rewritten"))


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
    whole = _unquoted(text)
    return whole if labels.BEGINS.match(whole) else text


def _labels(text: str, label: re.Pattern[str]) -> list[tuple[int, int]]:
    """``(start, end)`` of the labels that begin a line."""
    found = []
    at = 0
    for line in text.splitlines(keepends=True):
        if len(line) < 200_000 and (m := label.match(line)):
            found.append((at, at + m.end()))
        at += len(line)
    return found


def _context_from(text: str, reply: str, *, after: int = 0) -> int | None:
    """Where the context begins: behind its first label, which may stand behind a sentence of preamble.

    ``after`` is the end of a question's label, behind which anything may stand before the context's.
    """
    marked = _labels(text, labels.CONTEXT)
    inline = labels.AFTER_PREAMBLE.match(text)
    if marked and (not inline or marked[0][0] < inline.end()):
        if not (0 < after <= marked[0][0] or framing.announces(text[: marked[0][0]])):
            raise unparsable("a text before the context", reply)
        return marked[0][1]
    if inline and (labels.REFUSES.match(text) or not framing.opens(text)):
        raise unparsable("a text before the context", reply)
    return inline.end() if inline else None


def _field(text: str, reply: str) -> str:
    """A written field without what is known not to belong to it."""
    if not text.strip():
        raise unparsable("an empty context", reply)
    left = framing.without_remarks(text)
    if left is None or _ELLIPSIS.match(left) or left.lstrip().startswith("|\n") or labels.REFUSES.match(left):
        raise unparsable("a context whose last lines are not a remark and maybe no text", reply)
    again = [*_labels(left, labels.CONTEXT), *_labels(left, labels.QUESTION)]
    if any(left[start:end].rstrip("*_ \t").endswith((":", "：")) for start, end in again if start):
        raise unparsable("one context", reply)
    return _something(left)


def _asked(text: str, reply: str) -> str:
    """A question field: one or several questions or requests, and nothing behind the last."""
    text = text.strip()
    text = text[: framing.answer_from(text)]
    left = framing.without_remarks(text)
    if left is None:
        raise unparsable("a question with a remark that is none", reply)
    left = _unquoted(_plain(left.strip()))
    behind = _LAST_ASKED.split(left)[-1] if _ASKED.search(left) else ""
    if behind.strip(" \n\"'”»)*_.`") and not is_request(behind):
        raise unparsable("a question with nothing behind it", reply)
    if not left or labels.ONLY_NOTHING.match(left) or _NO_QUESTION.search(left) or _TWO.search(left):
        raise unparsable("an empty question", reply)
    return left


def _plain(text: str) -> str:
    """Without emphasis around the whole, and without the dash of a list of one."""
    if "\n" not in text:
        text = _DASH.sub("", text, count=1)
    for mark in ("***", "**", "*", "__", "_", "`"):
        inner = text[len(mark) : -len(mark)]
        if text.startswith(mark) and text.endswith(mark) and inner.strip() and mark not in inner:
            return inner.strip()
    return text


def _one_document(text: str, reply: str) -> str:
    start = _context_from(text.strip(), reply)
    text = text.strip()[start:] if start is not None else text
    text = _DOCUMENT_ENDS.sub("", text.rstrip())
    if _WITH_ANOTHER.match(text):
        raise unparsable("a text for each document", reply)
    return "" if labels.NOTHING.match(text) else _field(text, reply)


def _of(item: dict[str, object], names: frozenset[str]) -> object:
    found = [value for key, value in item.items() if str(key).strip().lower() in names]
    return found[0] if len(found) == 1 else None


def _named(data: dict[str, object], names: str) -> object:
    for key, value in data.items():
        if re.fullmatch(rf"(?:(?:{labels.ADJECTIVES})[ _])?(?:{names})", str(key).strip(), re.IGNORECASE):
            return value
    return None


def _something(text: str) -> str:
    text = unfenced(text.strip())
    return "" if labels.ONLY_NOTHING.match(text) or labels.NO_CONTEXT.match(text) else _unquoted(text)


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
    """Without a question field of one line at the end, which was not asked for, nor its answer."""
    asked = _labels(text, labels.QUESTION)
    if not asked:
        return text
    last = text[asked[-1][1] :].strip()
    last = last[: framing.answer_from(last)].strip()
    return text[: asked[-1][0]] if last.endswith(("?", "？", "؟")) and "\n" not in last else text


def _without_preamble(text: str) -> str:
    """Without a first paragraph or line that only announces what follows."""
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().endswith((":", "：")) and not labels.QUESTION.match(first):
        return unfenced(rest.strip())
    return unfenced(text)
