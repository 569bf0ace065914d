"""What of an answer speaks to the reader, not of the world: yes and no, "based on the context", offers of help.

The words here are closed classes: how one says yes, how one names what was read, how one is polite. What is
claimed is never told by them; they only say where a claim begins.
"""

from __future__ import annotations

from denoise_core.text.language import language_of
from denoise_core.text.lexemes import lexemes
from denoise_core.text.wordlists import FUNCTION_WORDS, listed

_YES_NO = listed(
    "yes yep ja sí si oui true correct 是 是的 对 はい no nope nein non false incorrect 不 不是 いいえ"
)
_OPEN = listed(
    """
    who whom whose what which when where why how wer wen wem wessen welche welcher welches welchen welchem wann
    wo warum wieso wie qui que quoi quel quelle quels quelles quand où pourquoi comment combien quién quiénes qué
    cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas 谁 什 哪 几 何
    """
)
_MEANT = listed(
    """
    answer answers based according provided given above following context passage passages document documents
    source sources text texts excerpt excerpts information evidence final short summary conclusion step result
    retrieved search results material details explanation
    """
)
_OF_REPLY = listed(
    """
    source sources citation citations reference references confidence confident score reasoning rationale thought
    thoughts answered status language
    """
)
_POLITE = listed(
    """
    sure certainly course absolutely great good excellent question happy glad help helps helped assist assistance
    thank thanks welcome let know hope free feel please ask anything else need questions clarification best kind
    regards dear hello hi hey greetings sorry more want like further details elaborate think work through
    """
)
_LONGEST = 30  # words of a polite sentence, at most


def opening(text: str) -> int:
    """Characters of the yes or no that a text opens with, and of the mark behind it; 0 for none."""
    first, *behind = [*lexemes(text[:40]), None][:2]
    if first is None or first.lower not in _YES_NO:
        return 0
    if behind[0] is None:
        return len(text)
    return behind[0].end if behind[0].text in ",.:;!，。！—–-" else 0


def asks(question: str) -> bool:
    """The question can be answered by yes or no: it asks for no thing, place, time or reason."""
    words = [x for x in lexemes(question) if x.shape != "mark"]
    what = _OPEN | {"was"} if language_of(question) == "de" else _OPEN
    return bool(words) and not any(x.lower in what and (not n or x.text.islower()) for n, x in enumerate(words))


def talk(text: str, question: str) -> bool:
    """Every word of it that carries content is one of politeness, of the question or of the sources' names, and
    half are of politeness: it says nothing of the world."""
    said = _content(text)
    polite = sum(w in _POLITE for w in said)
    known = _POLITE | _MEANT | {x.lower for x in lexemes(question)}
    return 0 < polite <= len(said) <= min(_LONGEST, 2 * polite) and all(w in known for w in said)


def preamble(text: str) -> int:
    """Characters of a beginning that only names what was read, with its comma or colon: "By the context,"."""
    mark = next((x for x in lexemes(text[:300]) if x.text in ",:：，"), None)
    if mark is None or not _content(text[: mark.start]) or not announces(text[: mark.start]):
        return 0
    return len(text) - len(text[mark.end :].lstrip())


def announces(text: str) -> bool:
    """It only names what was read, or that an answer comes."""
    return all(w in _MEANT for w in _content(text))


def of_the_reply(key: str) -> bool:
    """A key of JSON whose value is about the reply: sources, confidence."""
    return any(w.lower() in _OF_REPLY for w in key.split())


def _content(text: str) -> list[str]:
    """Its words that carry content, and its numbers."""
    words = (x.lower.split("'")[0] for x in lexemes(text) if x.shape != "mark")
    return [w for w in words if w not in FUNCTION_WORDS]
