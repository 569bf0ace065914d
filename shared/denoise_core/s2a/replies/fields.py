"""Written replies: a context, a context and a question, a text for each document, a question alone.

Labels are taken in the languages that models answer in. What stands behind them is left as it is, but for a
remark to the reader at the end ("Let me know ...") and quotation marks around the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.text.replies import fenced, json_in, said, unfenced, unparsable

_CONTEXTS = (
    "context|text|kontext|contexte|contexto|contesto|контекст|kontekst|bağlam|konteks|ngữ cảnh|السياق|النص|संदर्भ"
    "|上下文|背景|文脈|コンテキスト|문맥|맥락|컨텍스트"
)
_QUESTIONS = (
    "question|query|request|frage|pregunta|pergunta|domanda|vraag|вопрос|pytanie|soru|pertanyaan|câu hỏi|السؤال|سؤال"
    "|प्रश्न|问题|問題|提问|質問|질문"
)
_ADJECTIVES = "unbiased|neutral|relevant|remaining|rewritten|cleaned|cleared|the|final|neutrale|neutre|neutra|rewritten|my|new"
_DECORATION = r"[\s>#*_`\[<-]{0,8}"
_AFTER = r"[*_`\]>]{0,3}"


def _label(names: str) -> str:
    return (
        rf"{_DECORATION}(?:(?:{_ADJECTIVES})\s){{0,3}}(?:{names})(?:\s(?:text|context|neutre|neutral|neutra))?{_AFTER}"
        rf"(?:[ \t\u00a0]{{0,2}}[:：]{_AFTER}[ \t]*|[ \t]*(?=\n|$))"
    )


_CONTEXT = re.compile(_label(_CONTEXTS), re.IGNORECASE)
_QUESTION = re.compile(_label(_QUESTIONS), re.IGNORECASE)
_BEGINS = re.compile(rf"{_label(_CONTEXTS)}|{_label(_QUESTIONS)}", re.IGNORECASE)
_AFTER_PREAMBLE = re.compile(
    rf"\A[^\n]{{0,160}}?[.!:：。！]\s{{0,2}}\**(?:{_CONTEXTS})\**\s{{0,2}}[:：]\**[ \t]*", re.IGNORECASE
)
_XML = r"<({names})(?:\s[^>\n]{{0,40}})?>\s*(.*?)\s*</\1>"
_XML_CONTEXT = re.compile(_XML.format(names=_CONTEXTS), re.IGNORECASE | re.DOTALL)
_XML_QUESTION = re.compile(_XML.format(names=_QUESTIONS), re.IGNORECASE | re.DOTALL)
_NONE_WORDS = (
    "none|nothing|n/a|null|empty|no relevant (?:text|context|information)|keine?r?|nichts|aucune?|rien|ningun[oa]|nada"
    "|nessun[oa]?|niente|nenhum|нет|brak|无|無|没有|なし|없음|لا شيء|لا يوجد|hiç|tidak ada"
)
_NOTHING = re.compile(
    rf"[\s\"'“”*_`(\[]*(?:{_NONE_WORDS})[\s\"'“”*_`)\].!。]*(?:\([^()]{{0,300}}\)|\Z|\n\s*\n)", re.IGNORECASE
)
_ONLY_NOTHING = re.compile(rf"[\s\"'“”*_`(\[]*(?:{_NONE_WORDS})[\s\"'“”*_`)\].!。]*\Z", re.IGNORECASE)
_REMARK = re.compile(
    r"\A[\s(*_>\[-]*(?:"
    r"let me know\b|hope (?:this|that)\b|i hope\b|feel free\b|if you (?:need|want|would|have|'d)\b|is there anything"
    r"|would you like\b|please (?:let me|note that i)\b|thank(?:s| you)\b"
    r"|(?:\*\*)?(?:note|notes|explanation|hinweis|anmerkung|remarque|nota|примечание|注|说明|ملاحظة)(?:\*\*)?\s?[:：](?:\*\*)?"
    r"[^\n]{0,200}\b(?:i(?:'ve| have)?\b|removed|omitted|left out|kept|excluded|rewritten|original|opinion|question|entfernt"
    r"|weggelassen|supprim|retir|elimin|quit|omit|rimoss|удал)"
    r"|i(?:'ve| have)? (?:left|removed|omitted|kept|excluded|dropped|cut|rewrote|rewritten|only|did not|didn't|preserved)\b"
    r"|(?:ich habe|j'ai|he (?:eliminado|quitado|omitido|dejado)|ho (?:rimosso|tolto|eliminato|omesso)|removi|eu removi)\b"
    r"|(?:the|all|any|your|this)? ?(?:remarks?|opinions?|sentences?|text|statements?|irrelevant|personal|parts?)\b[^\n]{0,160}\b"
    r"(?:removed|left out|omitted|excluded|dropped)\b"
    r"|我(?:已|删|省|去)|已(?:删除|去掉|省略)|希望这|如有|如果您"
    r")",
    re.IGNORECASE,
)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*$", re.MULTILINE)
_PAIRS = (
    ('"', '"'),
    ("“", "”"),
    ("„", "“"),
    ("«", "»"),
    ("'", "'"),
    ("‘", "’"),
    ("「", "」"),
    ("『", "』"),
    ("”", "”"),
)
_DOCUMENT = "document|doc|dokument|documento|документ|dokumen|المستند|الوثيقة|文档|文件|文書|문서|passage|source|text|texte"
_HEADING = re.compile(
    rf"^[ \t>]{{0,4}}(?:"
    rf"[*_#` \t]{{0,6}}[\[【(](?:{_DOCUMENT})[ \t#]{{0,2}}(\d{{1,6}})[\]】)][*_`:：]{{0,4}}"
    rf"|#{{1,6}}[ \t*]{{1,4}}(?:{_DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})[*_:：]{{0,4}}[ \t]*$"
    rf"|\*\*(?:{_DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})[ \t]?[:：]?\*\*[:：]?"
    rf"|(?:{_DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})(?:[ \t]?[:：]|[ \t]*$)"
    rf")[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_XML_DOCUMENT = re.compile(
    rf"<(?:{_DOCUMENT})[ _-]?(?:index|id|number|n)?\s{{0,2}}=?\s{{0,2}}[\"']?(\d{{1,6}})[\"']?\s*>\s*(.*?)\s*</(?:{_DOCUMENT})[ _-]?\d{{0,6}}>",
    re.IGNORECASE | re.DOTALL,
)
_OPTIONS = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*•])[ \t]+\S", re.MULTILINE)
_ASKS_BACK = re.compile(
    r"(?:provide|share|give|send|tell|paste|what|which|include|supply)\b[^?\n]{0,60}\b(?:the|your|a)? ?(?:question|message|text|query)"
    r"[^?\n]{0,60}(?:rewrit|rephras|clear|you would like|you'd like|you want)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\A\W{0,3}(?:i(?:'m| am) (?:sorry|unable|afraid|not able)|sorry,|i (?:can't|cannot|can not|won't|will not)|unfortunately, i|as an ai"
    r"|es tut mir leid|je suis désolé|désolé|lo siento|mi dispiace|desculpe|извините|抱歉|对不起|عذرا|آسف)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\W{0,3}(?:please |kindly |bitte )?(?:list|name|give|tell|explain|describe|compare|summari[sz]e|translate|write|find|show|suggest"
    r"|calculate|compute|solve|identify|state|provide|outline|discuss|define|recommend|help|determine|analy[sz]e|create|draft|rewrite"
    r"|sort|count|check|choose|pick|answer|say|report|cite|quote|estimate|convert|plan|prove|evaluate|review|rank|make|generate"
    r"|nenne|erkläre|erklären|beschreibe|vergleiche|fasse|schreibe|gib|zeige|übersetze|liste|berechne|sag|finde|empfiehl"
    r"|cite|citez|expliquez?|décri[st]|comparez?|résumez?|traduisez?|donnez?|indiquez?|écrivez?|écris|listez?|calculez?|trouvez?|dites?"
    r"|explica|explique|describe|compara|compare|resume|resuma|traduce|traduzca|da|dé|dime|diga|enumera|enumere|escribe|escriba|calcula|indica|indique"
    r"|spiega|descrivi|confronta|riassumi|traduci|elenca|scrivi|calcola|trova|dimmi|liste|explique|descreva|resuma|traduza|escreva|cite"
    r"|перечисли|объясни|опиши|сравни|назови|переведи|напиши)\b|\W{0,3}(?:请|列出|解释|说明|比较|总结|翻译|写|اشرح|اذكر|لخص|قارن|اكتب|ترجم)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fields:
    """The two fields of a rewriting reply. ``context`` is "" when the model said that nothing is left."""

    context: str
    question: str | None


def context(reply: str) -> str:
    """The text behind the context's label; "" when the reply says that nothing is left.

    Raises `UnparsableReply` when the reply has neither that label nor says so.
    """
    text = _field_text(reply)
    data = json_in(text)
    if isinstance(data, dict):
        value = _named(data, _CONTEXTS)
        if isinstance(value, str):
            return _something(value)
        raise unparsable("no field 'context' that is a text", reply)
    if found := _XML_CONTEXT.search(text):
        return _something(found[2])
    start = _context_from(text)
    if start is None:
        if _NOTHING.match(text):
            return ""
        raise unparsable("no line 'Context:'", reply)
    rest = _without_question(text[start:])
    if _NOTHING.match(rest):
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
        known, asked = _named(data, _CONTEXTS), _named(data, _QUESTIONS)
        if isinstance(known, str) and isinstance(asked, str) and asked.strip():
            return Fields(_something(known), _unquoted(asked.strip()))
        raise unparsable("no fields 'context' and 'question' that are texts", reply)
    xml = _XML_CONTEXT.search(text), _XML_QUESTION.search(text)
    if xml[0] and xml[1]:
        return _fields(xml[0][2], xml[1][2], reply)
    contexts, questions = list(_labels(text, _CONTEXT)), list(_labels(text, _QUESTION))
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
    if label := _CONTEXT.match(text):
        text = text[label.end() :]
    data = json_in(text)
    found: list[tuple[int, str]] = []
    if isinstance(data, dict):
        for key, value in data.items():
            number = re.fullmatch(rf"(?:\[?(?:{_DOCUMENT})[ _]?)?(\d{{1,6}})\]?", str(key).strip(), re.IGNORECASE)
            if not number or not isinstance(value, str):
                raise unparsable("a key that names no document, or a document without a text", reply)
            found.append((int(number[1]), value))
    elif xml := _XML_DOCUMENT.findall(text):
        found = [(int(n), inner) for n, inner in xml]
    else:
        headings = list(_HEADING.finditer(text))
        ends = [*(h.start() for h in headings[1:]), len(text)]
        found = [(int(next(g for g in h.groups() if g)), text[h.end() : end]) for h, end in zip(headings, ends)]
        if found:
            found[-1] = (found[-1][0], _without_remarks(found[-1][1]))
    if not found and _NOTHING.match(text):
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
        value = _named(data, _QUESTIONS)
        if not isinstance(value, str):
            raise unparsable("no field 'question' that is a text", reply)
        text = value
    elif xml := _XML_QUESTION.search(text):
        text = xml[2]
    labels = list(_labels(text, _QUESTION))
    if labels:
        text = text[labels[-1][1] :]
    text = _unquoted(_without_remarks(_without_preamble(text)).strip())
    if not text or _REFUSES.match(text) or _ASKS_BACK.search(text):
        raise unparsable("expected a question", reply)
    asks = text.count("?") + text.count("？") + text.count("؟")
    if len(_OPTIONS.findall(text)) > 1 and asks > 1:
        raise unparsable("several questions to choose from", reply)
    if not asks and not labels and not _REQUEST.match(text):
        raise unparsable("expected a question or a request", reply)
    return text


def message(reply: str) -> str:
    """An unpartitioned rewrite. Raises `UnparsableReply` when it is empty or a refusal."""
    text = _without_preamble(_field_text(reply))
    if label := _CONTEXT.match(text):
        text = text[label.end() :]
    lines = [_QUESTION.sub("", line, count=1) if _QUESTION.match(line) else line for line in text.splitlines()]
    text = _unquoted(_without_remarks("\n".join(lines)).strip())
    if not text or _REFUSES.match(text):
        raise unparsable("expected a text", reply)
    return text


def asked_in(text: str) -> str:
    """What a message without fields asks: from its first question or order on; all of it when there is none."""
    cut = re.split(r"(?<=[.!?。！？؟])\s+|\n+", text)
    for n, sentence in enumerate(cut):
        if _ASKED.search(sentence) or is_request(sentence):
            return " ".join(cut[n:]).strip()
    return text


_ASKED = re.compile(r"[?？؟]")


def is_request(text: str) -> bool:
    """Whether a text begins as an order does: "List the ...", "Summarise ..."."""
    return _REQUEST.match(text) is not None


def _field_text(reply: str) -> str:
    text = said(reply, begins=_BEGINS)
    inner = fenced(text)
    if len(inner) == 1 and _BEGINS.match(inner[0]) and not _BEGINS.match(text):
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
    labels = _labels(text, _CONTEXT)
    inline = _AFTER_PREAMBLE.match(text)
    if labels and (not inline or labels[0][0] < inline.end()):
        return labels[0][1]
    return inline.end() if inline else None


def _fields(known: str, asked: str, reply: str) -> Fields:
    asked = _unquoted(_without_remarks(asked).strip())
    if not asked:
        raise unparsable("an empty question", reply)
    return Fields(_something(known), asked)


def _one_document(text: str) -> str:
    start = _context_from(text.strip())
    text = text.strip()[start:] if start is not None else text
    return "" if _NOTHING.match(text) else _something(text)


def _named(data: dict[str, object], names: str) -> object:
    for key, value in data.items():
        if re.fullmatch(rf"(?:(?:{_ADJECTIVES})[ _])?(?:{names})", str(key).strip(), re.IGNORECASE):
            return value
    return None


def _something(text: str) -> str:
    text = text.strip()
    return "" if _ONLY_NOTHING.match(text) else _unquoted(text)


def _unquoted(text: str) -> str:
    """Without one pair of quotation marks around the whole."""
    for opening, closing in _PAIRS:
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
    asked = _labels(text, _QUESTION)
    last = text[asked[-1][1] :].strip() if asked else ""
    return text[: asked[-1][0]] if last.endswith(("?", "？", "؟")) and "\n" not in last else text


def _without_preamble(text: str) -> str:
    """Without a first paragraph or line that only announces what follows."""
    first, broken, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().endswith((":", "：")) and not _QUESTION.match(first):
        return unfenced(rest.strip())
    return unfenced(text)


def _without_remarks(text: str) -> str:
    """Without what is said to the reader behind the text: paragraphs that remark on it, or that follow a rule."""
    text = text.rstrip()
    while True:
        at = text.rstrip().rfind("\n\n")
        last = text[at:].strip() if at >= 0 else ""
        if at >= 0 and (_REMARK.match(last) or _RULE.fullmatch(last)):
            text = text[:at].rstrip()
            continue
        return text
