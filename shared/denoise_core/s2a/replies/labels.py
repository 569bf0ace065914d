"""Labels, headings and phrases of written replies, in the languages that models answer in. Data, no logic."""

from __future__ import annotations

import re

CONTEXTS = (
    "context|text|kontext|contexte|texte|contexto|texto|testo|tekst|текст|テキスト|文本|正文"
    "|contesto|контекст|kontekst|bağlam|konteks|ngữ cảnh|السياق|النص|संदर्भ"
    "|上下文|背景|文脈|コンテキスト|문맥|맥락|컨텍스트"
)
QUESTIONS = (
    "question|query|request|frage|pregunta|pergunta|domanda|vraag|вопрос|pytanie|soru|pertanyaan"
    "|câu hỏi|السؤال|سؤال"
    "|प्रश्न|问题|問題|提问|質問|질문"
)
ADJECTIVES = (
    "unbiased|neutral|relevant|remaining|rewritten|cleaned|cleared|the|final|original"
    "|neutrale|neutre|neutra|my|new"
)
DECORATION = r"[\s>#*_`\[<-]{0,8}+(?:\d{1,2}[.)]\s{1,3}[*_]{0,3})?"
AFTER = r"[*_`\]>]{0,3}"


def _label(names: str) -> str:
    return (
        rf"{DECORATION}(?:(?:{ADJECTIVES})\s){{0,3}}(?:{names})(?:\s(?:text|context|neutre|neutral|neutra))?{AFTER}"
        rf"(?:[ \t\u00a0]{{0,2}}[:：]{AFTER}[ \t]{{0,9}}|[ \t]{{0,9}}(?=\n|$))"
    )


CONTEXT = re.compile(_label(CONTEXTS), re.IGNORECASE)
QUESTION = re.compile(_label(QUESTIONS), re.IGNORECASE)
BEGINS = re.compile(rf"{_label(CONTEXTS)}|{_label(QUESTIONS)}", re.IGNORECASE)
AFTER_PREAMBLE = re.compile(
    rf"\A[^\n]{{0,160}}?[.!:：。！]\s{{0,2}}\*{{0,3}}(?:{CONTEXTS})\*{{0,3}}\s{{0,2}}[:：]\*{{0,3}}[ \t]{{0,9}}",
    re.IGNORECASE,
)
XML = r"<({names})(?:\s[^>\n]{{0,40}})?>\s{{0,9}}(.*?)\s{{0,9}}</\1>"
XML_CONTEXT = re.compile(XML.format(names=CONTEXTS), re.IGNORECASE | re.DOTALL)
XML_QUESTION = re.compile(XML.format(names=QUESTIONS), re.IGNORECASE | re.DOTALL)
NONE_WORDS = (
    "none|nothing|n/a|null|empty|no relevant (?:text|context|information)|keine?r?|nichts|aucune?|rien"
    "|ningun[oa]|nada"
    "|nessun[oa]?|niente|nenhum|нет|brak|无|無|没有|なし|없음|لا شيء|لا يوجد|hiç|tidak ada"
)
NOTHING = re.compile(
    rf"\A[\s\"'“”*_`(\[]{{0,20}}(?:{NONE_WORDS})[\s\"'“”*_`)\].!。]{{0,20}}(?:\([^()]{{0,300}}\)|\Z|\n\s{{0,9}}\n)",
    re.IGNORECASE,
)
ONLY_NOTHING = re.compile(
    rf"\A[\s\"'“”*_`(\[]{{0,20}}(?:{NONE_WORDS})[\s\"'“”*_`)\].!。]{{0,20}}\Z", re.IGNORECASE
)
REMARK = re.compile(
    r"\A[\s(*_>\[-]{0,20}(?:"
    r"let me know\b|hope (?:this|that)\b|i hope\b|feel free\b|if you (?:need|want|would|have|'d)\b"
    r"|is there anything"
    r"|would you like\b|please (?:let me|note that i)\b|thank(?:s| you)\b"
    r"|(?:\*\*)?(?:note|notes|explanation|hinweis|anmerkung|remarque|nota|примечание|注|说明|ملاحظة)(?:\*\*)?\s?[:：](?:\*\*)?"
    r"[^\n]{0,200}\b(?:i(?:'ve| have)?\b|removed|omitted|left out|kept|excluded|rewritten|original"
    r"|opinion|question|entfernt"
    r"|weggelassen|supprim|retir|elimin|quit|omit|rimoss|удал)"
    r"|i(?:'ve| have)? (?:left|removed|omitted|kept|excluded|dropped|cut|rewrote|rewritten|only|did not"
    r"|didn't|preserved)\b"
    r"|(?:ich habe|j'ai|he (?:eliminado|quitado|omitido|dejado)|ho (?:rimosso|tolto|eliminato|omesso)"
    r"|removi|eu removi)\b"
    r"|(?:the|all|any|your|this)? ?(?:remarks?|opinions?|sentences?|text|statements?|irrelevant"
    r"|personal|parts?)\b[^\n]{0,160}\b"
    r"(?:removed|left out|omitted|excluded|dropped)\b"
    r"|我(?:已|删|省|去)|已(?:删除|去掉|省略)|希望这|如有|如果您"
    r")",
    re.IGNORECASE,
)
RULE = re.compile(r"^[ \t]{0,9}(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]{0,9}$", re.MULTILINE)
PAIRS = (
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
DOCUMENT = (
    "document|doc|dokument|documento|документ|dokumen|المستند|الوثيقة|文档|文件|文書|문서"
    "|passage|source|text|texte"
)
HEADING = re.compile(
    rf"^[ \t>]{{0,4}}(?:"
    rf"[*_#` \t]{{0,6}}[\[【(](?:{DOCUMENT})[ \t#]{{0,2}}(\d{{1,6}})[\]】)][*_`:：]{{0,4}}"
    rf"|#{{1,6}}[ \t*]{{1,4}}(?:{DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})[*_:：]{{0,4}}[ \t]{{0,9}}$"
    rf"|\*\*(?:{DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})[ \t]?[:：]?\*\*[:：]?"
    rf"|(?:{DOCUMENT})[ \t]{{0,2}}(\d{{1,6}})(?:[ \t]?[:：]|[ \t]{{0,9}}$)"
    rf")[ \t]{{0,9}}",
    re.IGNORECASE | re.MULTILINE,
)
NUMBER_ALONE = re.compile(r"^[ \t>*_#]{0,6}[\[【(](\d{1,4})[\]】)][*_:：]{0,3}[ \t]{0,9}$", re.MULTILINE)
"""A heading of a number alone, where no other headings stand."""
XML_DOCUMENT = re.compile(
    rf"<(?:{DOCUMENT})[ _-]?(?:index|id|number"
    rf"|n)?\s{{0,2}}=?\s{{0,2}}[\"']?(\d{{1,6}})[\"']?\s{{0,9}}>"
    rf"\s{{0,9}}(.*?)\s{{0,9}}</(?:{DOCUMENT})[ _-]?\d{{0,6}}>",
    re.IGNORECASE | re.DOTALL,
)
CHOICES = re.compile(
    r"^\W{0,6}(?:(?:option|version|variant|variation|alternative|alternatively|rephrasing)\b|or(?:,"
    r"| even\b| more\b| simply\b)"
    r"|oder,|ou,|o,)",
    re.IGNORECASE | re.MULTILINE,
)
"""Several questions to choose from."""
OPTIONS = re.compile(r"^[ \t]{0,9}(?:\d{1,2}[.)]|[-*•])[ \t]{1,9}\S", re.MULTILINE)
NO_CONTEXT = re.compile(
    r"\A[\s\"'“”*_`(\[]{0,9}(?:there (?:is|are|was|were) |the (?:text|passage|document) (?:has|contains|holds) )?"
    r"(?:no|none|nothing)\b[^.\n]{0,60}\b(?:relevant|pertinent|provided|given|available|remains?|left|related|needed|useful)\b[^.\n]{0,80}"
    r"[\s\"'“”*_`)\].]{0,9}\Z"
    r"|\A\W{0,9}(?:the|this) (?:text|passage) (?:does not|doesn't) (?:mention|contain|say|provide"
    r"|state|include|discuss|address|answer)\b[^.\n]{0,120}\W{0,9}\Z",
    re.IGNORECASE,
)
"""A sentence that says that nothing of the text is left."""
ASKS_BACK = re.compile(
    r"(?:could|can|would) you (?:please )?(?:clarify|specify|elaborate|(?:give|provide|share|tell"
    r"|send) (?:me )?(?:more|some more"
    r"|additional|further))\b|what (?:exactly )?do you mean|would you like (?:me|to)\b|(?:does"
    r"|did) (?:that|this) help|anything else"
    r"|"
    r"(?:provide|share|give|send|tell|paste|what|which|include|supply)\b[^?\n]{0,60}\b(?:the|your"
    r"|a)? ?(?:question|message|text|query)"
    r"[^?\n]{0,60}(?:rewrit|rephras|clear|you would like|you'd like|you want)",
    re.IGNORECASE,
)
REFUSES = re.compile(
    r"\A\W{0,3}(?:i(?:'m| am) (?:sorry|unable|afraid|not able|not sure)|sorry,|i (?:can't|cannot|can not|won't"
    r"|will not)|unfortunately, i|as an ai"
    r"|es tut mir leid|je suis désolé|désolé|lo siento|mi dispiace|desculpe|извините|抱歉|对不起|عذرا|آسف)",
    re.IGNORECASE,
)
REQUEST = re.compile(
    r"\A\W{0,3}(?:please |kindly |bitte )?(?:list|name|give|tell|explain|describe|compare|summari[sz]e"
    r"|translate|write|find|show|suggest"
    r"|calculate|compute|solve|identify|state|provide|outline|discuss|define|recommend|help|determine|analy[sz]e|create|draft|rewrite"
    r"|sort|count|check|choose|pick|answer|say|report|cite|quote|estimate|convert|plan|prove|evaluate|review|rank|make|generate"
    r"|nenne|erkläre|erklären|beschreibe|vergleiche|fasse|schreibe|gib|zeige|übersetze|liste|berechne|sag|finde|empfiehl"
    r"|cite|citez|expliquez?|décri[st]|comparez?|résumez?|traduisez?|donnez?|indiquez?|écrivez?|écris|listez?|calculez?|trouvez?|dites?"
    r"|explica|explique|describe|compara|compare|resume|resuma|traduce|traduzca|da|dé|dime|diga|enumera|enumere|escribe|escriba|calcula|indica|indique"
    r"|spiega|descrivi|confronta|riassumi|traduci|elenca|scrivi|calcola|trova|dimmi|liste|explique|descreva|resuma|traduza|escreva|cite"
    r"|перечисли|объясни|опиши|сравни|назови|переведи|напиши)\b|\A\W{0,3}(?:请|列出|解释|说明|比较|总结|翻译|写|اشرح|اذكر|لخص|قارن|اكتب|ترجم)",
    re.IGNORECASE,
)
