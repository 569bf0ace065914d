"""What of an answer speaks to the reader, not of the world: yes and no, "based on the context", offers of help.

The words here are closed classes: how one says yes, how one names what was read, how one is polite. What is
claimed is never told by them; they only say where a claim begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.text.language import language_of
from denoise_core.text.lexemes import Lexeme, lexemes
from denoise_core.text.stems import content
from denoise_core.text.wordlists import FUNCTION_WORDS, listed

_YES_NO = listed(
    "yes yep ja sí si oui true correct 是 是的 对 はい да evet כן نعم "
    "no nope nein non false incorrect 不 不是 いいえ нет hayır לא لا"
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
    antwort laut gemäß kontext textstellen textstelle quellen quelle abschnitt dokument dokumente kurz fazit
    schritt réponse selon contexte passages documents extraits résumé étape respuesta según contexto documentos
    fuentes resumen paso retrieved search results material
    """
)
_OF_REPLY = listed(
    """
    source sources citation citations reference references confidence confident score reasoning rationale thought
    thoughts answered status language quellen
    """
)
_POLITE = listed(
    """
    sure certainly course absolutely great good excellent question happy glad help helps helped assist assistance
    thank thanks welcome let know hope free feel please ask anything else need questions clarification best kind
    regards dear hello hi hey greetings sorry more want like further details elaborate vielen dank danke gern gerne
    natürlich selbstverständlich freundlichen grüße hoffe hilft fragen weiteren weitere melden hallo guten tag
    sehr geehrte kein problem claro supuesto gusto espero gracias suerte saludo saludos hola duda dude estimado
    bien sûr plaisir merci espère aide bonjour cordialement hésitez volontiers step think work through it's here
    """
)
_IS = listed("is are was were be lautet ist sind war est sont es son era fue would")
_STOPS = frozenset(",:：，–—-")
_LONGEST = 30  # words of a polite sentence, at most


def opening(text: str) -> int:
    """Characters of the yes or no that a text opens with, and of the mark behind it; 0 for none."""
    found = lexemes(text[:40])
    words = [x for x in found if x.shape != "mark"]
    if not words or not all(x.lower in _YES_NO for x in words[:1]):
        return 0
    behind = next((x for x in found if x.start >= words[0].end), None)
    if behind is None:
        return len(text)
    return behind.end if behind.shape == "mark" and behind.text in ",.:;!，。！—–-" else 0


def asks(question: str) -> bool:
    """The question can be answered by yes or no: it asks for no thing, place, time or reason."""
    words = [x for x in lexemes(question) if x.shape != "mark"]
    what = _OPEN | {"was"} if language_of(question) == "de" else _OPEN
    return bool(words) and not any(x.lower in what and (not n or x.text.islower()) for n, x in enumerate(words))


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of one answer's language, and those of its question."""

    language: str
    asked: frozenset[str]

    def talk(self, text: str) -> bool:
        """Every word of it that carries content is one of politeness, of the question or of the sources' names,
        and one is of politeness: it says nothing of the world."""
        found = lexemes(text)
        if any(x.shape == "number" for x in found):
            return False
        words = self._content(text, found)
        if not words:
            return False
        polite = sum(w in _POLITE for w in words)
        known = all(w in _POLITE or w in _MEANT or w in self.asked for w in words)
        return bool(polite) and known and len(words) <= _LONGEST and (2 * polite >= len(words))

    def preamble(self, text: str) -> int:
        """Characters of a beginning that only names what was read or that an answer comes: "Based on the context,
        the answer is"."""
        found = lexemes(text[:300])
        content_at = {w.start for w in content(found, self.language)}
        end = named = 0
        for n, x in enumerate(found[:-1]):
            if x.shape == "mark":
                if named and x.text in _STOPS:
                    end = x.end
                elif x.text not in "()*\"'’":
                    break
            elif x.shape == "number":
                if not named or len(x.text) > 2:
                    break
            elif x.lower in _MEANT:
                named += 1
            elif x.lower in _IS and named and found[n - 1].lower in _MEANT:
                end = x.end
            elif x.start in content_at:
                break
        return end + len(text[end:]) - len(text[end:].lstrip(" \n\t:")) if end else 0

    def announces(self, text: str) -> bool:
        """A line that only names what was read, or that an answer comes."""
        return all(w in _MEANT for w in self._content(text, lexemes(text)))

    def about_sources(self, name: str) -> bool:
        """A key that only says that an answer comes."""
        return all(w.lower() in _MEANT or w.lower() in ("details", "explanation") for w in name.split())

    def of_the_reply(self, name: str) -> bool:
        """A key whose value is about the reply: sources, confidence."""
        return any(w.lower() in _OF_REPLY for w in name.split())

    def _content(self, text: str, found: Sequence[Lexeme]) -> list[str]:
        words = [text[w.start : w.end].lower().replace("’", "'") for w in content(found, self.language)]
        return [w for w in words if w.split("'")[0] not in FUNCTION_WORDS]


def wording_of(answer: str, question: str) -> Wording:
    """The answer's language as far as it tells, else the question's."""
    language = language_of(answer, language_of(question, "en"))
    return Wording(language, frozenset(x.lower for x in lexemes(question) if x.shape != "mark"))
