"""What a model says around a written field: announcements before it, remarks behind it.

A field is read when the rest of the reply is known to be framing. What may be framing and may be text, nobody can
tell from the reply, which is unreadable then.
"""

from __future__ import annotations

import re

from denoise_core.s2a.replies import labels

_OPENERS = (
    r"sure|certainly|of course|absolutely|ok|okay|alright|all right|got it|understood|done|great"
    r"|yes|here|below|this is|the following"
    r"|based on|after removing|i have|i've|i rewrote|let me|natürlich|gern|gerne|klar|hier"
    r"|nachfolgend|voici|bien sûr|d'accord|ci-dessous"
    r"|claro|aquí|por supuesto|a continuación|aqui|ecco|certo|di seguito|hier is|вот|конечно|ниже"
    r"|以下|好的|当然|这是|はい|إليك|بالطبع|فيما يلي"
)
_OPENS = re.compile(rf"\A[\s*_#>]{{0,6}}(?:{_OPENERS})\b", re.IGNORECASE)
_OPENS_ALONE = re.compile(
    r"\A(?:sure|(?:i'd be |i'm )?(?:happy|glad) to help|here (?:it is|you go)|certainly"
    r"|of course|absolutely|okay|ok|alright|got it|understood|natürlich|gerne"
    r"|klar|bien sûr|claro|certo|конечно|好的|はい)"
    r"(?: thing)?\s{0,2}[!.,！。，]\s{1,9}",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"\A(?:#{1,6}\s[^\n]{1,80}|\*\*[^*\n]{1,80}\*\*:?|-{3,}|={3,}|\*{3,}|`{3,}\w{0,12}|[\[<]\w{1,20}[\]>])\Z"
)
_FRAMING_WORDS = (
    r"question|query|asked|needed|changes?|version|rephras\w*|rewrit\w*|rewrote|neutral|clear\w*|clean\w*|unbiased|text|context|result|output|reply|answer"
    r"|frage|fassung|umformul\w*|reformul\w*|version|pregunta|versión|domanda|versione|pergunta|versão|q|вопрос|问题|質問|السؤال"
)
_INTRODUCES = re.compile(
    rf"\A[^\n?？؟:：]{{0,100}}\b(?:{_FRAMING_WORDS})\b[^\n?？؟:：]{{0,60}}[:：][*_\s]{{1,9}}", re.IGNORECASE
)
_META = re.compile(
    r"\b(?:remov\w+|omit\w*|left out|kept|exclud\w+|dropp\w+|rewrit\w+|rewrote|rewritten|rephras\w+"
    r"|preserv\w+|unchanged"
    r"|opinions?|irrelevant|word count|changes?|sentences?|as requested|original text|the text"
    r"|this text|the question"
    r"|entfernt\w*|weggelassen|gekürzt|meinung\w*|supprim\w+|retir\w+|omis\w*|opinions|elimin\w+|omit\w+|opini\w+|rimoss\w+|omess\w*)\b"
    r"|删除|省略|意见|削除|意見|удал\w*|мнени\w*|حذف",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"\A[\s(*_>\[-]{0,20}(?:this|the above|the rewritten|the cleaned|the revised|the remaining"
    r"|all other|the other|other)\s"
    r"(?:[\w-]{1,20}\s)?(?:version|text|context|rewrite|passage|rewriting|sentences?|parts?|details?|remarks?|information|question)\b",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"\A[\s(*_>\[#-]{0,20}(?:changes(?: made)?|removed|omitted|kept|explanation|reason(?:ing|s)?"
    r"|rationale|word count|notes?|remarks?"
    r"|sources?|quelle|confidence|p\.?\s?s\.?|length|relevance"
    r"|summary of changes|what (?:i|was) (?:removed|changed)|disclaimer|comment|erklärung"
    r"|begründung|hinweis|anmerkung|änderungen|explication"
    r"|remarque|note|justification|explicación|nota|cambios|spiegazione|nota|modifiche|explicação|说明|注|注意|解释|説明|注記|примечание|ملاحظة)"
    r"[*_]{0,3}\s?[:：]",
    re.IGNORECASE,
)
_SURELY = re.compile(
    r"\A[\s(*_>\[#-]{0,20}(?:changes(?: made)?|removed|omitted|word count|summary of changes"
    r"|what (?:i|was) (?:removed|changed)|änderungen|cambios|modifiche)"
    r"[*_]{0,3}\s?[:：]",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"\A[\s*_>#]{0,9}(?:answer|antwort|réponse|respuesta|resposta|risposta|答案|回答|الإجابة|ответ)[*_]{0,3}\s?[:：]",
    re.IGNORECASE,
)
_END_MARK = re.compile(
    r"\A[\s\[<(*_-]{0,6}(?:end|eof|done|that's all|that is all|#{3,6}|end of (?:text|context|reply"
    r"|answer))[\s\]>)*_.-]{0,6}\Z",
    re.IGNORECASE,
)
_PARENTHESIS = re.compile(r"\A[*_]{0,3}[(\[（](?P<inner>[^()\[\]（）]{1,600})[)\]）][*_.]{0,4}\Z")
_OFFER = re.compile(
    r"\A[\s(*_]{0,6}(?:let me know|hope (?:this|that)|i hope|feel free|is there anything"
    r"|would you like|do you (?:want|need)|if you (?:need|want|would|have|'d)"
    r"|please let me|happy to|shall i|should i|ich hoffe|n'hésitez|espero que|spero che|希望)",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\A[\s(*_>-]{0,6}(?:the answer (?:is|to)\b|this (?:answers|confirms|means|shows that|text|passage)\b"
    r"|die antwort (?:ist|lautet)\b|la réponse est\b|la respuesta es\b)",
    re.IGNORECASE,
)
"""A last paragraph that answers or judges; it may be text as well."""
_MINE = re.compile(
    r"\A[\s(*_>-]{0,6}(?:please )?(?:note that )?i(?:'ve| have)? (?:left|removed|omitted|excluded|dropped|cut"
    r"|rewrote|rewritten|preserved)\b",
    re.IGNORECASE,
)
_CUT = re.compile(r"[\[<][^\]>\n]{0,20}\Z")


_REMOVAL = re.compile(
    r"\b(?:removed|omitted|left out|excluded|entfernt|weggelassen|gestrichen|supprimée?s?"
    r"|retirée?s?|omise?s?|eliminad\w+"
    r"|eliminaron|omitid\w+|rimoss\w+|omess\w*|removid\w+|удален\w*)\b|删除|省略|削除",
    re.IGNORECASE,
)
_CLOSING_PARENTHESIS = re.compile(r"[(\[（][^()\[\]（）\n]{1,300}[)\]）]\s{0,9}\Z")
_CITES = re.compile(
    r"\A.\s{0,3}(?:sources?|from|see|quelle|fuente)?:?\s{0,3}(?:the )?(?:document|passage)s?\s\d", re.I
)
_REMARKS_HEADING = re.compile(
    r"\A[\s*_#]{1,9}(?:notes?|changes(?: made)?|explanation|remarks?|removed|rationale|reasoning|hinweise?"
    r"|anmerkung(?:en)?|remarques?|notas?)[*_:：\s]{0,9}\Z",
    re.IGNORECASE,
)


def announces(text: str) -> bool:
    """Whether what stands before a field only leads up to it: headings, openers, lines that end in a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return all(
        len(line) <= 240
        and (_HEADING.match(line) or _OPENS.match(line) or line.rstrip("*_ ").endswith((":", "：")))
        for line in lines
    ) and not labels.REFUSES.match(text)


def opens(text: str) -> bool:
    """Whether a text begins as an announcement does."""
    return _OPENS.match(text) is not None


def offers(text: str) -> bool:
    """Whether a sentence offers help or wishes well."""
    return _OFFER.match(text) is not None


def without_opener(text: str) -> str:
    """A one-line reply without "Sure!" and without "Here is a neutral version:" before what it brings."""
    text = _OPENS_ALONE.sub("", text, count=1)
    introduced = _INTRODUCES.match(text)
    return text[introduced.end() :] if introduced else text


def without_remarks(text: str) -> str | None:
    """``text`` without the remarks behind it; None when its end may be a remark and may be text.

    Paragraphs and bracketed last lines are looked at from the end.
    """
    text = text.rstrip()
    while text:
        at = max(text.rfind("\n\n"), _last_bracketed(text))
        last = text[at:].strip() if at >= 0 else ""
        if at < 0 or not last:
            break
        certain = _is_remark(last)
        if certain is None:
            return None
        if not certain:
            heading = _remark_above(text, at)
            if heading is None:
                break
            text = text[:heading].rstrip()
            continue
        text = text[:at].rstrip()
        if (above := text.rfind("\n")) >= 0 and _REMARKS_HEADING.match(text[above:]):
            text = text[:above].rstrip()
    closing = _CLOSING_PARENTHESIS.search(text[-320:])
    told = closing and (_REMOVAL.search(closing[0]) or _CITES.search(closing[0]))
    if (_CUT.search(text) and "\n" in text) or told:
        return None
    return text


def _last_bracketed(text: str) -> int:
    """Where a last line begins that is one bracketed remark or an end mark; -1 for any other."""
    at = text.rfind("\n")
    line = text[at + 1 :].strip()
    remarks = _PARENTHESIS.match(line) or _END_MARK.match(line) or _MINE.match(line)
    return at if at >= 0 and remarks else -1


def _is_remark(paragraph: str) -> bool | None:
    """True for a remark, False for text, None for what may be both."""
    if _END_MARK.match(paragraph) or labels.RULE.fullmatch(paragraph) or _SURELY.match(paragraph):
        return True
    if labels.RULE.match(paragraph):
        return True
    bracketed = _PARENTHESIS.match(paragraph)
    if bracketed or (paragraph[:1] == paragraph[-1:] and paragraph[:1] in ("*", "_")):
        return True if _META.search(paragraph) else None
    if labels.REMARK.match(paragraph) or _OFFER.match(paragraph) or _MINE.match(paragraph):
        return True
    if _LABELLED.match(paragraph):
        return True if _META.search(paragraph) else None
    if _SELF.match(paragraph):
        return True if _META.search(paragraph) or len(paragraph) < 160 else None
    unsure = (
        _ANSWER.match(paragraph)
        or _CONCLUDES.match(paragraph)
        or (len(paragraph) < 240 and _REMOVAL.search(paragraph))
    )
    return None if unsure else False


def _remark_above(text: str, at: int) -> int | None:
    """The start of a paragraph a little above that begins a remark of several paragraphs ("Changes made:")."""
    for _ in range(4):
        start = text.rfind("\n\n", 0, at)
        if start < 0:
            return None
        if _SURELY.match(text[start:at].strip()) or labels.RULE.fullmatch(text[start:at].strip()):
            return start if _META.search(text[start:]) else None
        at = start
    return None


def answer_from(text: str) -> int:
    """Where a line begins that answers the question that was only to be cleared; the length when none does."""
    at = 0
    for line in text.splitlines(keepends=True):
        if at and _ANSWER.match(line):
            return at
        at += len(line)
    return len(text)
