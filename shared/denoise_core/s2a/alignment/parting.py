"""A person's message cut into what it asks, what it pushes and what it states."""

from __future__ import annotations

import re
from dataclasses import dataclass

from denoise_core.s2a.alignment.asides import CLAIM, ELLIPTIC, PUSHED, RHETORICAL, TAGGED, without_asides
from denoise_core.s2a.alignment.asking import BEGINS, BELIEF, HINT, WRAPPER, kind_of
from denoise_core.s2a.alignment.closed import COURTESIES, LIGHT, LIGHT_NOUNS, TELLING
from denoise_core.s2a.alignment.matching import known, plain, tokens
from denoise_core.s2a.replies.fields import is_request
from denoise_core.s2a.units import units
from denoise_core.text.tokens import Token, is_content
from denoise_core.text.wordlists import FUNCTION_WORDS, listed
from denoise_core.types import Passage

_MARK = re.compile(r"[?？؟]")
_SEPARATOR = re.compile(
    r"[,;:：，–—]\s{0,9}(?:but|and|so|yet|however|aber|doch|und|mais|et|pero|y|mas|e|ma)?\s{0,9}|\s{1,9}(?:but|yet|aber|mais|pero)\s{1,9}",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"(?:[,;，、]\s{0,9}(?:and|und|et|y|e|en|и|or)?\s{0,9}|\s{1,9}(?:and|und|et|y|e|en|и)\s{1,9})(?=\S)",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\S+")
_EDGES = ".,;:!?¿¡\"'“”()"
_ADDRESSED = listed("you u someone anyone somebody anybody sie du ihr jemand vous tu quelqu'un usted alguien")
_WHETHER = re.compile(r"\A(?:if|whether|ob|si|se)\s{1,9}", re.IGNORECASE)
_FRONTED = re.compile(
    r"\A\W{0,6}(?:in|on|at|for|during|under|between|among|since|with|im|in|am|bei|für|unter|seit|dans|en|pour|au|chez"
    r"|para|nel|nella)\s(?!my\b|our\b|case\b|fact\b|other\b|short\b)",
    re.IGNORECASE,
)
_TO_KNOW = re.compile(
    r"\b(?:i|we) (?:\w+ ){0,3}to (?:know|find out|figure out|understand|learn|check|look up)\s{1,3}", re.IGNORECASE
)
_EXCLAIMS = re.compile(
    r"\W{0,6}(?:what an?|such an?|qué|quel(?:le)?|was für ein\w{0,2})\s{1,9}[^?]{1,200}\Z", re.IGNORECASE
)
_PUSHES = re.compile(
    r"\W{0,6}(?:(?:please |just )?(?:say|tell me|admit|confirm)(?: that)? (?:it's|it is|i'm|i am"
    r"|i was|yes|no|that's)\b"
    r"|(?:please )?(?:help|answer|be)(?: me| honestly| truthfully| honest| quick| brief)?\W{0,6}\Z"
    r"|(?:bitte )?sag\w{0,3} (?:mir )?(?:ja|nein|dass)\b"
    r"|di(?:te)?s-moi que\b|(?:dime|dígame) que\b|dimmi (?:di|che)\b)",
    re.IGNORECASE,
)
"""An order that pushes an answer, or none in particular."""
_CONDITION = re.compile(r"\A\W{0,6}(?:if|in case|when|wenn|falls|sofern|si|se|als|если)\s", re.IGNORECASE)
_GOES_ON = re.compile(
    r"\A\W{0,6}(?:and|or|what about|how about|also|und|oder|et|ou|y|o|e)\b"
    r"|\b(?:too|also|as well|either|instead|auch|aussi|también|anche)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"(?:which|who|whose|where|qui|que|dont|die|der|das|che|quien|o que)\b", re.IGNORECASE)
# Where sentences end besides what the cutting of documents knows: behind a bracket or a smile, before a question.
_ENDS = re.compile(
    r"(?<=[。！？])\s{0,9}(?=\S)|(?:(?<=\.\.\.)|(?<=…))\s{1,9}(?=(?:what|who|whom|whose|when|where|why|which|how|is|are"
    r"|do|does|did|can|could)\b)|(?<=[?？؟])\s{0,9}(?=\S)|(?<=[.!…])\s{1,9}(?=¿)|(?<=[.!?][)\"'”»])\s{1,9}(?=[^\W\da-zß-ÿ])|(?<=[:;][)(DP])\s{1,9}(?=\S)"
    r"|(?<=[.!])\s{1,9}(?=(?:I|How|What|Who|Whom|Whose|When|Where|Why|Which|Is|Are|Do|Does|Did|Can|Could|Was|Were|Will|Should"
    r"|List|Name|Wie|Was|Wer|Wann|Wo|Warum|Welche\w?|Comment|Quel\w{0,3}|Qui|Quand|Où|Pourquoi)\b)"
)


@dataclass(frozen=True, slots=True)
class Question:
    """``kind`` as in `kind_of`, or ``request``; ``words`` are its content, ``every`` all its norms, "
    "``text`` itself."""

    kind: str
    text: str
    words: tuple[Token, ...]
    every: tuple[str, ...]
    fragment: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    questions: tuple[Question, ...]
    hints: tuple[str, ...]
    statements: tuple[str, ...]


def sentences_of(text: str, language: str = "en") -> list[str]:
    """The sentences of a message, without blanks."""
    cut = units(Passage(text, "q"), language=language)
    parts = [text[s.start : s.end].strip() for s in cut]
    out: list[str] = []
    for part in parts:
        out += [p.strip() for p in _ENDS.split(part) if p.strip(" \"'”»)")]
    return out


def part(text: str, language: str) -> Message:
    questions: list[Question] = []
    hints: list[str] = []
    statements: list[str] = []
    for sentence in sentences_of(text, language):
        if TAGGED.search(sentence) and kind_of(sentence) is None:
            hints.append(sentence)  # "It can't be seven, can it?"
            continue
        if ELLIPTIC.match(sentence) or (PUSHED.search(sentence) and kind_of(sentence) in (None, "polar")):
            hints.append(sentence)
            continue
        sentence, asides = without_asides(sentence)
        hints += asides
        core, before = _core(sentence)
        if before:
            (hints if BELIEF.search(before) or _is_chatter(before) else statements).append(before)
        if core is None:
            continue
        kind = kind_of(core)
        if HINT.match(core) and kind in (None, "polar"):
            hints.append(core)
            continue
        questions += _parted(core, kind or "request")
    # A guess put as a question ("Is it 12 or 14?", "100 degrees?") beside the question itself.
    real = [q for q in questions if not _only_a_guess(q) and not (q.fragment and len(questions) > 1)]
    real = [q for q in real if not RHETORICAL.match(q.text) and not any(_answers(r, q) for r in real)]
    if real and len(real) < len(questions):
        hints += [q.text for q in questions if q not in real]
        questions = real
    if not questions:  # "Is it true that honey never spoils?" is the question when there is no other
        asked = [h for h in hints if _MARK.search(h) and len(_question(h, "polar").words) > 1]
        hints = [h for h in hints if h not in asked]
        questions = [_question(h, "polar") for h in asked]
    return Message(tuple(questions), tuple(hints), tuple(statements))


def _core(sentence: str) -> tuple[str | None, str]:
    """The part of a sentence that asks, or None, and what stands before it."""
    marked = _MARK.search(sentence) is not None
    if not marked and (_EXCLAIMS.match(sentence) or _PUSHES.match(sentence)):
        return None, sentence
    stripped = _unwrapped(WRAPPER.sub("", sentence))
    wrapped = stripped != sentence
    if wrapped and (BEGINS.match(stripped.lstrip(" ,¿")) or is_request(sentence) or marked):
        return stripped.strip(" ,"), ""
    bare = sentence.strip()
    if HINT.match(bare) and marked:
        for mark in (":", ", so ", ","):  # "Just say yes: is the contract valid?", "Right, so who won?"
            pushed, found, rest = bare.partition(mark)
            if found and kind_of(rest) and HINT.sub("", pushed).strip(" ,") == "":
                return rest.strip(), pushed
        return bare, ""
    if kind_of(bare) is not None and (marked or _no_statement(bare)):
        return bare, ""
    if opened := _opened(bare):
        return opened
    if is_request(bare):
        return bare, ""
    behind: list[tuple[str, str]] = []
    for m in _SEPARATOR.finditer(bare):
        rest = bare[m.end() :]
        inner = WRAPPER.sub("", rest)
        if kind_of(inner) is not None and _is_fronted(bare[: m.start()]):
            end = len(inner.rstrip(" ?？؟"))
            return f"{inner[:end]} {bare[: m.start()]}{inner[end:]}", ""  # "In Excel, how do I ...?"
        asks = kind_of(inner) is not None and (marked or inner != rest)
        if asks or (is_request(inner) and BELIEF.search(bare[: m.start()])):
            behind.append((opened[0] if (opened := _opened(inner)) else inner.strip(" ,"), bare[: m.start()]))
    if behind:  # ", which looks fine to me, what is ..." asks from "what" on
        return next((b for b in behind if not _RELATIVE.match(b[0])), behind[-1])
    if wrapped:
        return stripped, ""
    if (told := _TO_KNOW.search(bare)) and kind_of(bare[told.end() :]) is not None:
        return _WHETHER.sub("", bare[told.end() :]), ""
    return (bare, "") if marked else (None, bare)


def _is_fronted(head: str) -> bool:
    """Whether a phrase says of what or when is asked: "In Excel", "For flight 454"; no guess stands in it."""
    facts = any(t.kind in ("name", "number") for t in tokens(head)[1:])
    return facts and len(head) < 60 and _FRONTED.match(head) is not None and not BELIEF.search(head)


def _opened(text: str) -> tuple[str, str] | None:
    """What asks behind a colon, and the few words before it: "Please check: what is ...", "Quick one: who ...".

    None when there is no such colon, or when a name or number stands before it.
    """
    head, colon, rest = text.partition(":")
    found = tokens(head)
    opens = len(found) <= 8 and not any(t.kind in ("name", "number", "negation") for t in found[1:])
    return (rest.strip(), head) if colon and opens and kind_of(rest) is not None else None


def _unwrapped(sentence: str) -> str:
    """Without a polite clause around the question: "I was hoping you could explain how ..." asks how.

    Such a clause is made of courtesies and function words alone, holds a verb of telling or knowing, and a clause
    that asks (or an order) follows. Time is bounded: the clause has at most sixteen words.
    """
    order: int | None = None
    tells = asked = False
    for n, m in enumerate(_SPACED.finditer(sentence)):
        rest = sentence[m.start() :]
        kind = kind_of(rest) if n else None
        word = m[0].strip(_EDGES).lower().replace("’", "'")
        if tells and ((kind not in (None, "polar") and word != "was") or _WHETHER.match(rest)):
            return _WHETHER.sub("", rest)
        if asked and order is None and is_request(rest):
            order = m.start()
        parts = {word, *word.split("-")} - {""} if "-" in word else {word}
        if n == 16 or not any(parts & known for known in (COURTESIES, TELLING, FUNCTION_WORDS, {""})):
            break
        tells, asked = tells or bool(parts & TELLING), asked or bool(parts & _ADDRESSED)
    return sentence if order is None else sentence[order:]


def _no_statement(text: str) -> bool:
    """An unmarked sentence that begins as a question does: taken for one unless it reads on as a statement."""
    return kind_of(text) not in (None, "polar") or not BELIEF.search(text)


def _is_chatter(text: str) -> bool:
    return not any(t.kind == "number" for t in tokens(text)) and len(tokens(text)) < 4


def _parted(core: str, kind: str) -> list[Question]:
    """The questions of a core: "who founded it and when did it go public" are two."""
    out: list[Question] = []
    start = 0
    for m in _JOINED.finditer(core):
        after = core[m.end() :]
        if kind_of(after) not in (None,) and len(tokens(core[start : m.start()])) > 1 and len(tokens(after)) > 1:
            follows = kind_of(after)
            if follows == "polar" and not re.match(
                r"\W*(?:is|are|does|do|did|may|can|was|were|has|have|will|should|must)\b", after, re.I
            ):
                continue
            first = core[start : m.start()]
            if _CONDITION.match(first) and kind in ("polar", "when"):  # "If I quit, what happens to my pension?"
                kind, start = follows or kind, (m.end() if _is_courtesy(first) else start)
                continue
            out.append(_question(first, kind))
            kind, start = follows or kind, m.end()
    out.append(_question(core[start:], kind))
    return out


def _is_courtesy(clause: str) -> bool:
    """ "If it's not too much trouble": courtesies and function words alone."""
    words = (w.strip(_EDGES).lower().replace("’", "'") for w in clause.split())
    return all(w in COURTESIES or w in TELLING or w in FUNCTION_WORDS or w in _CONTRACTED for w in words if w)


_CONTRACTED = listed("it's that's there's i'm you're don't isn't wouldn't not no")


def _question(text: str, kind: str) -> Question:
    found = tokens(text)
    light = LIGHT if kind != "request" else LIGHT - LIGHT_NOUNS | {found[0].norm if found else ""}
    words = tuple(
        t for t in found if is_content(t) and plain(t.norm) not in light and not _asks_word(t, kind, text)
    )
    fragment = kind == "request" and _MARK.search(text) is not None and _is_fragment(text, words)
    return Question(kind, text, words, tuple(t.norm for t in found), fragment)


def _is_fragment(text: str, words: tuple[Token, ...]) -> bool:
    """A few words with a question mark that neither ask nor order nor go on with a question ("And in Ulm?")."""
    return len(words) <= 4 and not is_request(text) and not _GOES_ON.search(text)


def _asks_word(token: Token, kind: str, text: str) -> bool:
    """Whether the token belongs to the words that ask, such as "how tall"."""
    return (
        kind not in ("polar", "request", "how far")
        and token.kind == "word"
        and kind_of(text[token.start : token.end]) is not None
    )


def whole(asked: str) -> list[Question]:
    """A message without anything that asks: all of it is the request."""
    return [_question(asked, "request")]


_OPEN = ("what", "who", "which", "when", "where", "how many", "how far")


def _answers(wide: Question, narrow: Question) -> bool:
    """Whether ``narrow`` only puts a guess at what ``wide`` asks openly: "Did Nokia sue it? Who sued it?" """
    if narrow.kind != "polar" or wide.kind not in _OPEN:
        return False
    guessed = [t for t in narrow.words if not known(t, wide.words)]
    shared = len(narrow.words) - len(guessed)
    named = all(known(t, narrow.words) for t in wide.words if t.kind in ("name", "number"))
    return bool(guessed) and shared > 0 and named and all(t.kind in ("name", "number") for t in guessed)


def _only_a_guess(q: Question) -> bool:
    if CLAIM.match(q.text):
        return True
    begins = re.match(
        r"\W*(?:is|was|are|were|isn't|wasn't|ist|war|est|es|fue|è|é) (?:it|that|this|he|she|they|es|das"
        r"|er|ce|él|ella)\b",
        q.text,
        re.I,
    )
    return q.kind == "polar" and begins is not None and all(t.kind in ("number", "name") for t in q.words)
