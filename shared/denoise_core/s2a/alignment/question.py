"""Does a cleared question ask for the same thing?

Both sides are cut into questions (what is asked for) and statements. Every question of the person's has to be
there, of the same kind and with its words; nothing may be there that was not asked: no other question, no number,
name or negation, no word of time, degree or obligation, and nothing that only stood in a belief or in quoted text.
Statements may come along as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from denoise_core.s2a.alignment.asking import BEGINS, BELIEF, HINT, PRONOUN, WRAPPER, kind_of
from denoise_core.s2a.alignment.closed import CLASSES, LIGHT, classes_of
from denoise_core.s2a.alignment.matching import known, plain, tokens
from denoise_core.s2a.replies.fields import is_request
from denoise_core.s2a.units import units
from denoise_core.text.tokens import Token, is_content
from denoise_core.types import Passage

_MARK = re.compile(r"[?？؟]")
_QUOTED = re.compile(r"[\"“«„「][^\"“”«»„「」]{25,400}+[\"”»“」]")
_SEPARATOR = re.compile(
    r"[,;:：，–—]\s{0,9}(?:but|and|so|yet|however|aber|doch|und|mais|et|pero|y|mas|e|ma)?\s{0,9}|\s{1,9}(?:but|yet|aber|mais|pero)\s{1,9}",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"(?:[,;，、]\s{0,9}(?:and|und|et|y|e|en|и|or)?\s{0,9}|\s{1,9}(?:and|und|et|y|e|en|и)\s{1,9})(?=\S)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"(?:which|who|whose|where|qui|que|dont|die|der|das|che|quien|o que)\b", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[?？؟])\s{0,9}(?=\S)|(?<=[.!])\s{1,9}(?=I\b)")
_LONGEST = 20_000  # characters; such a message is not compared


@dataclass(frozen=True, slots=True)
class _Question:
    """``kind`` as in `kind_of`, or ``request``; ``words`` are its content, ``every`` all its norms, "
    "``text`` itself."""

    kind: str
    text: str
    words: tuple[Token, ...]
    every: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Message:
    questions: tuple[_Question, ...]
    hints: tuple[str, ...]
    statements: tuple[str, ...]


def why_not_same(asked: str, cleared: str, *, language: str = "en") -> str | None:
    """Why ``cleared`` does not ask what ``asked`` asks; None when it does.

    ``language`` decides abbreviations when sentences are cut, as in `chunk.sentences`.
    """
    if not cleared.strip():
        return "it is empty"
    if _same_text(asked, cleared):
        return None
    if len(asked) > _LONGEST or len(cleared) > 2 * len(asked) + 200:
        return "it is too long to be compared"
    quoted = [m[0] for m in _QUOTED.finditer(asked)]
    own = _read(_QUOTED.sub(' "" ', asked), language)
    new = _read(cleared, language)
    if not new.questions:
        return "it asks nothing"
    wanted = list(own.questions) or _whole(asked)
    return (
        _kinds_differ(wanted, new.questions)
        or _words_lost(wanted, cleared)
        or _words_new(own, new, wanted, asked, quoted)
        or _classes_differ(wanted, new)
        or _states_more(own, new)
        or _turned_round(wanted, new)
    )


def sentences_of(text: str, language: str = "en") -> list[str]:
    """The sentences of a message, without blanks."""
    cut = units(Passage(text, "q"), language=language)
    parts = [text[s.start : s.end].strip() for s in cut]
    out: list[str] = []
    for part in parts:
        out += [p.strip() for p in _ENDS.split(part) if p.strip(" \"'”»)")]
    return out


def _same_text(a: str, b: str) -> bool:
    return [plain(t.norm) for t in tokens(a)] == [plain(t.norm) for t in tokens(b)] and bool(tokens(a))


def _read(text: str, language: str) -> _Message:
    questions: list[_Question] = []
    hints: list[str] = []
    statements: list[str] = []
    for sentence in sentences_of(text, language):
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
    # A guess put as a question ("Is it 12 or 14?") beside the question itself.
    real = [q for q in questions if not _only_a_guess(q)]
    if real and len(real) < len(questions):
        hints += [q.text for q in questions if q not in real]
        questions = real
    return _Message(tuple(questions), tuple(hints), tuple(statements))


def _core(sentence: str) -> tuple[str | None, str]:
    """The part of a sentence that asks, or None, and what stands before it."""
    marked = _MARK.search(sentence) is not None
    stripped = WRAPPER.sub("", sentence)
    wrapped = stripped != sentence
    if wrapped and (BEGINS.match(stripped.lstrip(" ,¿")) or is_request(sentence) or marked):
        return stripped.strip(" ,"), ""
    bare = sentence.strip()
    if HINT.match(bare) and marked:
        return bare, ""
    if kind_of(bare) is not None and (marked or _no_statement(bare)):
        return bare, ""
    if is_request(bare):
        return bare, ""
    behind: list[tuple[str, str]] = []
    for m in _SEPARATOR.finditer(bare):
        rest = bare[m.end() :]
        inner = WRAPPER.sub("", rest)
        asks = kind_of(inner) is not None and (marked or inner != rest)
        if asks or (is_request(inner) and BELIEF.search(bare[: m.start()])):
            behind.append((inner.strip(" ,"), bare[: m.start()]))
    if behind:  # ", which looks fine to me, what is ..." asks from "what" on
        return next((b for b in behind if not _RELATIVE.match(b[0])), behind[-1])
    if wrapped:
        return stripped, ""
    return (bare, "") if marked else (None, bare)


def _no_statement(text: str) -> bool:
    """An unmarked sentence that begins as a question does: taken for one unless it reads on as a statement."""
    return kind_of(text) not in (None, "polar") or not BELIEF.search(text)


def _is_chatter(text: str) -> bool:
    return not any(t.kind == "number" for t in tokens(text)) and len(tokens(text)) < 4


def _parted(core: str, kind: str) -> list[_Question]:
    """The questions of a core: "who founded it and when did it go public" are two."""
    out: list[_Question] = []
    start = 0
    for m in _JOINED.finditer(core):
        after = core[m.end() :]
        if kind_of(after) not in (None,) and len(tokens(core[start : m.start()])) > 1 and len(tokens(after)) > 1:
            follows = kind_of(after)
            if follows == "polar" and not re.match(
                r"\W*(?:is|are|does|do|did|may|can|was|were|has|have|will|should|must)\b", after, re.I
            ):
                continue
            out.append(_question(core[start : m.start()], kind))
            kind, start = follows or kind, m.end()
    out.append(_question(core[start:], kind))
    return out


def _question(text: str, kind: str) -> _Question:
    found = tokens(text)
    words = tuple(
        t for t in found if is_content(t) and plain(t.norm) not in LIGHT and not _asks_word(t, kind, text)
    )
    return _Question(kind, text, words, tuple(t.norm for t in found))


def _asks_word(token: Token, kind: str, text: str) -> bool:
    """Whether the token belongs to the words that ask, such as "how tall"."""
    return (
        kind not in ("polar", "request", "how far")
        and token.kind == "word"
        and kind_of(text[token.start : token.end]) is not None
    )


def _whole(asked: str) -> list[_Question]:
    """A message without anything that asks: all of it is the request."""
    return [_question(asked, "request")]


def _only_a_guess(q: _Question) -> bool:
    begins = re.match(
        r"\W*(?:is|was|are|were|isn't|wasn't|ist|war|est|es|fue|è|é) (?:it|that|this|he|she|they|es|das"
        r"|er|ce|él|ella)\b",
        q.text,
        re.I,
    )
    return q.kind == "polar" and begins is not None and all(t.kind in ("number", "name") for t in q.words)


_ALIKE = {
    "request": {"what", "how many", "when", "where", "who", "how", "why", "how far", "polar"},
    "what": {"when", "where", "who", "how many", "how far"},
}


def _alike(a: str, b: str, one: _Question, other: _Question) -> bool:
    if a == b:
        return True
    if "request" in (a, b):
        free = other if a == "request" else one
        asked = one if a == "request" else other
        return not is_request(asked.text) or free.kind == "what"
    if {a, b} == {"how", "how many"} or {a, b} == {"how", "how far"}:
        return False
    if "what" in (a, b):  # "what year" and "when", "what height" and "how tall": when the words still agree
        return (
            bool(one.words)
            and {plain(t.norm) for t in one.words} == {plain(t.norm) for t in other.words}
            and "polar" not in (a, b)
        )
    return False


def _kinds_differ(wanted: Iterable[_Question], new: tuple[_Question, ...]) -> str | None:
    wanted = list(wanted)
    for q in wanted:
        if not any(_alike(q.kind, n.kind, q, n) for n in new):
            return (
                f"a question of another kind: {q.kind} was asked, not {', '.join(sorted({n.kind for n in new}))}"
            )
    for n in new:
        if not any(_alike(q.kind, n.kind, q, n) for q in wanted):
            return f"a question that was not asked: {n.text.strip()[:60]}"
    return None


def _words_lost(wanted: Iterable[_Question], cleared: str) -> str | None:
    has = tokens(cleared)
    for q in wanted:
        lost = [t for t in q.words if not known(t, has)]
        if lost:
            return f"words of the question are gone: {', '.join(t.norm for t in lost[:5])}"
    return None


def _words_new(own: _Message, new: _Message, wanted: list[_Question], asked: str, quoted: list[str]) -> str | None:
    """Words that were not asked with: new ones, and those of beliefs and of quoted text."""
    core = [t for q in wanted for t in tokens(q.text)]
    stated = [t for s in own.statements if not BELIEF.search(s) for t in tokens(s)]
    believed = [t for s in (*own.hints, *own.statements) for t in tokens(s)]
    outside = tokens(_QUOTED.sub(' "" ', asked))
    points = any(PRONOUN.search(q.text) for q in wanted)
    for token in (t for q in new.questions for t in tokens(q.text)):
        if not is_content(token) and token.kind != "negation":
            continue
        if known(token, core) or known(token, stated):
            continue
        if token.kind == "number":
            return f"number that was not asked with: {token.norm}"
        norm = plain(token.norm)
        if kind_of(token.norm) is not None or norm in LIGHT or any(norm in table for table in CLASSES.values()):
            continue  # the classes are compared by themselves
        if points and (known(token, believed) or known(token, outside)):
            continue
        if (
            known(token, outside)
            and not known(token, [t for h in own.hints for t in tokens(h)])
            and not BELIEF.search(asked)
        ):
            continue
        if _names_the_topic(token, own):
            continue
        if known(token, [t for q in quoted for t in tokens(q)]):
            return f"words of quoted text: {token.norm}"
        return f"words that were not asked with: {token.norm}"
    return None


def _names_the_topic(token: Token, own: _Message) -> bool:
    """A name from a remark that holds no belief ("GPG is awful") may say what the question is about."""
    return token.kind == "name" and any(known(token, tokens(s)) for s in own.statements if not BELIEF.search(s))


def _classes_differ(wanted: list[_Question], new: _Message) -> str | None:
    own_words = [plain(w) for q in wanted for w in q.every]
    new_words = [plain(w) for q in new.questions for w in q.every]
    before = classes_of(own_words, " ".join(q.text for q in wanted))
    after = classes_of(new_words, " ".join(q.text for q in new.questions))
    for name, values in before.items():
        if values != after[name]:
            differ = ", ".join(sorted(values ^ after[name]))
            return f"a word of {name} is not the same: {differ}"
    return None


def _states_more(own: _Message, new: _Message) -> str | None:
    """A statement that comes along has to be one of the person's, and no belief."""
    sources = [tokens(s) for s in own.statements if not BELIEF.search(s)]
    sources += [tokens(_clauses_without_belief(s)) for s in (*own.statements, *own.hints) if BELIEF.search(s)]
    for statement in (*new.statements, *new.hints):
        words = [t for t in tokens(statement) if is_content(t) and plain(t.norm) not in LIGHT]
        facts = [t for t in words if t.kind in ("number", "name")]
        if words and not any(_mostly(words, s) and all(known(t, s) for t in facts) for s in sources):
            return f"it states what was not stated: {statement.strip()[:60]}"
    return None


def _mostly(words: list[Token], source: list[Token]) -> bool:
    return sum(known(t, source) for t in words) >= 0.7 * len(words)


def _clauses_without_belief(text: str) -> str:
    return " ".join(c for c in re.split(r"[,;:]", text) if not BELIEF.search(c))


def _turned_round(wanted: list[_Question], new: _Message) -> str | None:
    """Who did what to whom: two names in another order, where both sides are in the same voice."""
    for n in new.questions:
        for q in wanted:
            if q.kind != n.kind or _passive(q.text) != _passive(n.text):
                continue
            order = [plain(t.norm) for t in q.words if t.kind == "name"]
            now = [plain(t.norm) for t in n.words if t.kind == "name"]
            same = set(order) == set(now) and len(set(order)) > 1
            if (
                same
                and order != now
                and not re.search(r"\b(?:or|and|und|oder|et|ou|y|o|e|of|'s)\b", n.text, re.IGNORECASE)
            ):
                return "the names stand in another order"
    return None


def _passive(text: str) -> bool:
    return re.search(r"\b(?:by|von|par|por|da|door)\b", text, re.IGNORECASE) is not None
