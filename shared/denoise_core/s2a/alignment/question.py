"""Does a cleared question ask for the same thing?

Both sides are cut into questions (what is asked for) and statements. Every question of the person's has to be
there, of the same kind and with its words; nothing may be there that was not asked: no other question, no number,
name or negation, no word of time, degree or obligation, and nothing that only stood in a belief or in quoted text.
Statements may come along as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from denoise_core.s2a.alignment.asking import BELIEF, PRONOUN, kind_of
from denoise_core.s2a.alignment.closed import CLASSES, LIGHT, LOADED, classes_of
from denoise_core.s2a.alignment.matching import known, plain, stem_of, tokens
from denoise_core.s2a.alignment.parting import Message, Question, part, whole
from denoise_core.s2a.alignment.same_words import one_form
from denoise_core.s2a.alignment.synonyms import alike
from denoise_core.s2a.replies.fields import is_request
from denoise_core.text.tokens import Token, is_content
from denoise_core.text.wordlists import FUNCTION_WORDS, listed

_QUOTED = re.compile(r"[\"“«„「][^\"“”«»„「」]{25,400}+[\"”»“」]|(?<=:)\s{0,9}['‘][^'‘’\n]{8,400}+['’]")
_IS = re.compile(
    r"(?:\b(?:is|are|was|were|has|have|had|will|would|does|did|ist|sind|war|hat|est|sont|était|es|son|fue|era|tiene)|'s|'re)\b",
    re.IGNORECASE,
)
_THAN = re.compile(r"\b(?:than|als|que|чем|di|dan)\b", re.IGNORECASE)
_CAN = listed("can could able possible kann können konnte peut peuvent puede pueden può possono")
_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 40  # of a question that are compared three by three
_DO = re.compile(r"\b(?:do|does|did)\b", re.IGNORECASE)
_BE = re.compile(r"\b(?:is|are|was|were|be|been|has|have|had|will|would|can|could)\b", re.IGNORECASE)
_BY_HIM = re.compile(
    r"\b(?:is|are|was|were|been|be)(?:\s\w{1,20}){1,3}\sby\s(?!whom|which|what|who)", re.IGNORECASE
)
_BOTH_WAYS = listed("and or und oder et ou y o e a an the of in on at der die das le la les el los las de du des")
"""Words on whose two sides things stand in either order."""
_LINKS = _BOTH_WAYS | FUNCTION_WORDS
_LONGEST = 20_000  # characters; such a message is not compared


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
    asked, cleared = one_form(asked), one_form(cleared)
    quoted = [m[0] for m in _QUOTED.finditer(asked)]
    own = part(_QUOTED.sub(' "" ', asked), language)
    new = part(cleared, language)
    if not new.questions:
        return "it asks nothing"
    wanted = list(own.questions) or whole(asked)
    return (
        _kinds_differ(wanted, new.questions)
        or _words_lost(wanted, cleared)
        or _words_new(own, new, wanted, asked, quoted)
        or _classes_differ(wanted, new)
        or _states_more(own, new)
        or _turned_round(wanted, new)
        or _compared_otherwise(wanted, new)
    )


def _same_text(a: str, b: str) -> bool:
    return [plain(t.norm) for t in tokens(a)] == [plain(t.norm) for t in tokens(b)] and bool(tokens(a))


_ALIKE = {
    "request": {"what", "how many", "when", "where", "who", "how", "why", "how far", "polar"},
    "what": {"when", "where", "who", "how many", "how far"},
}


def _alike(a: str, b: str, one: Question, other: Question) -> bool:
    if a == b:
        return True
    if "request" in (a, b):
        free = other if a == "request" else one
        asked = one if a == "request" else other
        return not is_request(asked.text) or free.kind == "what"
    if {a, b} in ({"how", "how many"}, {"how", "how far"}, {"what", "how many"}):
        return False
    if "what" in (a, b):  # "what year" and "when", "what height" and "how tall": when the words still agree
        return (
            bool(one.words)
            and {plain(t.norm) for t in one.words} == {plain(t.norm) for t in other.words}
            and "polar" not in (a, b)
        )
    return False


def _kinds_differ(wanted: Iterable[Question], new: tuple[Question, ...]) -> str | None:
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


def _words_lost(wanted: Iterable[Question], cleared: str) -> str | None:
    has = tokens(cleared)
    for q in wanted:
        lost = [t for t in q.words if not _said(t, has) and plain(t.norm) not in LOADED]
        if lost:
            return f"words of the question are gone: {', '.join(t.norm for t in lost[:5])}"
    return None


def _said(token: Token, among: list[Token]) -> bool:
    """Whether the word is among the others, or one that says the same in nearly every sentence."""
    return known(token, among) or (token.kind == "word" and alike(token.norm, {t.norm for t in among}))


def _words_new(own: Message, new: Message, wanted: list[Question], asked: str, quoted: list[str]) -> str | None:
    """Words that were not asked with: new ones, and those of beliefs and of quoted text."""
    core = [t for q in wanted for t in tokens(q.text)]
    stated = [t for s in own.statements if not BELIEF.search(s) for t in tokens(s)]
    believed = [t for s in (*own.hints, *own.statements) for t in tokens(s)]
    outside = tokens(_QUOTED.sub(' "" ', asked))
    points = any(PRONOUN.search(q.text) for q in wanted)
    pointed = [t for s in (*own.hints, *own.statements) for t in _antecedents(s)]
    for token in (t for q in new.questions for t in tokens(q.text)):
        if not is_content(token) and token.kind != "negation":
            continue
        if _said(token, core) or known(token, stated):
            continue
        if token.kind == "number":
            return f"number that was not asked with: {token.norm}"
        norm = plain(token.norm)
        if kind_of(token.norm) is not None or norm in LIGHT or any(norm in table for table in CLASSES.values()):
            continue  # the classes are compared by themselves
        if points and (known(token, pointed) or (known(token, outside) and not known(token, believed))):
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


def _antecedents(statement: str) -> list[Token]:
    """What a pronoun may stand for: of a belief its subject, not what is believed of it; of a statement all."""
    belief = BELIEF.search(statement)
    if belief is None:
        return tokens(statement)
    verb = _IS.search(statement, belief.end())
    return tokens(statement[: verb.start()] if verb else statement)


def _names_the_topic(token: Token, own: Message) -> bool:
    """A name from a remark that holds no belief ("GPG is awful") may say what the question is about."""
    return token.kind == "name" and any(known(token, tokens(s)) for s in own.statements if not BELIEF.search(s))


def _classes_differ(wanted: list[Question], new: Message) -> str | None:
    own_words = [plain(w) for q in wanted for w in _related(q)]
    new_words = [plain(w) for q in new.questions for w in _related(q)]
    before = classes_of(own_words, " ".join(q.text for q in wanted))
    after = classes_of(new_words, " ".join(q.text for q in new.questions))
    for name, values in before.items():
        if values != after[name]:
            differ = ", ".join(sorted(values ^ after[name]))
            return f"a word of {name} is not the same: {differ}"
    return None


def _related(q: Question) -> list[str]:
    """The question's words without the verb in "how long does it last"."""
    return [w for w in q.every if not (w == "last" and q.kind == "how far")]


def _states_more(own: Message, new: Message) -> str | None:
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


def _turned_round(wanted: list[Question], new: Message) -> str | None:
    """Who did what to whom: two names in another order, where both sides are in the same voice."""
    for n in new.questions:
        for q in wanted:
            if q.kind in ("who", "what") and q.kind == n.kind and _agent_asked(q.text, n.text):
                return "who does it and to whom it is done are exchanged"
            if q.kind != n.kind or _passive(q.text) != _passive(n.text):
                continue
            if _crossed(q.text, n.text) or (q.kind in ("who", "what") and _asks_of_the_other(q.text, n.text)):
                return "who does it and to whom it is done are exchanged"
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


def _crossed(asked: str, cleared: str) -> bool:
    """Whether two words stand on the two sides of a third in one text, and the other way round in the other."""
    before, after = _places(asked), _places(cleared)
    shared = sorted((w for w in before if w in after), key=before.__getitem__)[:_MOST_WORDS]
    content = [w for w in shared if w not in _LINKS]
    for i, a in enumerate(content):
        for b in content[i + 1 :]:
            if after[b] < after[a] and any(
                before[a] < before[v] < before[b] and after[b] < after[v] < after[a]
                for v in shared
                if v not in _BOTH_WAYS
            ):
                return True
    return False


def _asks_of_the_other(asked: str, cleared: str) -> bool:
    """ "Who taught Plato" asks for who does it, "whom did Plato teach" for whom it is done to."""
    if bool(_DO.search(asked)) == bool(_DO.search(cleared)):
        return False
    before, after = _places(asked), _places(cleared)
    shared = [w for w in before if w in after and w not in _LINKS][:_MOST_WORDS]
    return any((before[a] < before[b]) != (after[a] < after[b]) for a, b in combinations(shared, 2))


def _agent_asked(asked: str, cleared: str) -> bool:
    """ "Which firm was bought by Meta" asks for what Meta bought, "which firm bought Meta" for who bought it."""
    for passive, active in ((asked, cleared), (cleared, asked)):
        if _BY_HIM.search(passive) and not (_passive(active) or _DO.search(active) or _BE.search(active)):
            return True
    return False


def _places(text: str) -> dict[str, int]:
    """Where each word stands, by its stem; words that occur twice are left out."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for n, m in enumerate(_WORD.finditer(text.lower())):
        word = stem_of(plain(m[0]))
        twice |= {word} & found.keys()
        found[word] = n
    return {w: n for w, n in found.items() if w not in twice}


def _compared_otherwise(wanted: list[Question], new: Message) -> str | None:
    """What is compared with what: "is iron heavier than lead" with the two sides exchanged; can it, does it."""
    for n in new.questions:
        for q in wanted:
            if q.kind != n.kind:
                continue
            (a, b), (c, d) = _sides(q.text), _sides(n.text)
            if (a & d) - b and (b & c) - a:
                return "what is compared stands on the other side"
            if q.kind == "polar" and bool(_CAN & set(q.every)) != bool(_CAN & set(n.every)):
                return "a word of modality is not the same: can"
    return None


def _sides(text: str) -> tuple[set[str], set[str]]:
    """The content words before and behind a word of comparison; nothing without one."""
    cut = _THAN.search(text)
    if cut is None:
        return set(), set()
    before, behind = tokens(text[: cut.start()]), tokens(text[cut.end() :])
    return {plain(t.norm) for t in before if is_content(t)}, {plain(t.norm) for t in behind if is_content(t)}


def _passive(text: str) -> bool:
    return re.search(r"\b(?:by|von|par|por|da|door)\b", text, re.IGNORECASE) is not None
