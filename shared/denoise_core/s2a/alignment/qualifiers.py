"""Parts of a sentence that what stays does not hold without: a condition, an exception, who says so; "
"and new causes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.text.facts import facts
from denoise_core.text.facts.kinds.units import UNITS
from denoise_core.text.tokens import Token, is_content, tokens
from denoise_core.text.wordlists import NEGATING_PREFIXES, listed

_DENYING = listed(
    "impossible unable lacks lack lacked fails failed refuses refused unmöglich imposible impossibile"
)
_ALIKE = 0.75  # similarity from which words stand in the source's order

_CONDITION = re.compile(
    r"(?<![\w'’])(?:if|unless|\Awithout|once (?=the|an?|all|it|they|he|she|you|we|your|their)|as soon as"
    r"|subject to|provided(?: that)?|as long as|assuming|except|only when|only if|in case"
    r"|on condition that|until"
    r"|wenn|falls|sofern|solange|es sei denn|außer|vorausgesetzt|bis"
    r"|sauf|à condition|à moins que|tant que|pourvu que|jusqu'à|s'ils?|si|excepto|salvo|a menos que"
    r"|siempre que|con tal de|hasta que"
    r"|se|a meno che|purché|tranne|finché|exceto|a não ser|desde que|tenzij|mits|indien|если|кроме"
    r"|при условии)(?![\w'’])"
    r"|如果|除非|只要|除了|إذا|إلا|ما لم",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(
    r"\b(?:except(?:ing| for)?|apart from|aside from|other than|with the exception of|excluding"
    r"|(?:all|every|everyone|everything|any|no|none|nobody|nothing)(?:\s\w{1,20}){0,2}\sbut"
    r"|außer|ausgenommen|bis auf|mit ausnahme|sauf|hormis|excepté|à l'exception d|salvo|excepto"
    r"|a excepción d|tranne|eccetto"
    r"|exceto|behalve|кроме)(?![\w])",
    re.IGNORECASE,
)
_LIMITS = re.compile(
    r"\b(?:far from|anything but|by no means|hardly|barely|scarcely|kaum|alles andere als|à peine|apenas)\s",
    re.IGNORECASE,
)
_MAY = re.compile(
    r"\b(?:may|might|could|can|possibl[ey]|perhaps|likely|probably|könnte\w*|dürfte\w*|vielleicht|pourrai\w+|peut-être|podría\w*|quizás?)\b",
    re.I,
)
_WILL = re.compile(r"\b(?:will|shall|certainly|definitely|sicher|certainement|seguramente)\b", re.I)
_DENIES = re.compile(
    r"\b(?:not|no|never|far|barely|hardly|scarcely|almost|few|little|nicht|kein\w*|kaum|ne|pas|peine|apenas|\w+n't)\b",
    re.I,
)
_CONDITION_EDGE = re.compile(r"[,;:.!?—–，。；]|\s(?:then|dann|so)\s")
_COMPLETE = re.compile(
    r"\b(?:only|exactly|solely|just|nur|ausschließlich|genau|seulement|uniquement|exactement|sólo|solo|solamente|únicamente|soltanto"
    r"|apenas|somente|alleen|только)\b(?P<list>[^.;!?]*?,[^.;!?]*?\s(?:and|or|und|oder|et|ou|y|o|e|en|of|и|или)\s{1,9}\S+(?:\s\S+)?)",
    re.IGNORECASE,
)
_LISTED = re.compile(r",|\s(?:and|or|und|oder|et|ou|y|o|e|en|of|и|или)\s")
_PART = re.compile(
    r"(?:\A|(?<=[.;:!?]\s))\W{0,3}(?:only|nur|seuls?|seules?|sólo|solo|apenas|soltanto)\b"
    r"|(?:\A|(?<=,\s))\W{0,3}(?:most|many|few|some|almost all|nearly all|not all|hardly any)\b|\b(?:among"
    r"|one of) (?:the|its|their)\b"
    r"|\b(?:most|some|many|few|several|half|part|parts|none|one) of\b|\b(?:die meisten|einige"
    r"|manche|viele der|la plupart des|algunos de)\b",
    re.IGNORECASE,
)
_ANY_PART = re.compile(
    r"\b(?:only|just|solely|exclusively|most\w*|some|many|few|several|among|numerous|various|couple|handful|half|partly|part|parts|one|majority|minority|none|reserved|limited|nur"
    r"|meist\w*|einige\w?|manche\w?|viele\w?|seuls?|seules?|seulement|plupart|sólo|solo|algun[oa]s|mayoría|apenas|soltanto)\b|\d",
    re.IGNORECASE,
)
SAYS = re.compile(
    r"\b(?:claim(?:s|ed)?|alleg\w+|say(?:s|ing)?|said|argu(?:es?|ed)|assert(?:s|ed)?|insist(?:s|ed)?|believ(?:es?|ed)|think(?:s)?|thought"
    r"|report(?:s|ed|edly)|predict(?:s|ed)?|expect(?:s|ed)?|suspect(?:s|ed)?|suggest(?:s|ed)?|rumou?r(?:s|ed)?|myth|supposed(?:ly)?|purported(?:ly)?"
    r"|accus(?:es?|ed)|den(?:y|ies|ied)|promis(?:es?|ed)|hop(?:es|ed)|fear(?:s|ed)|warn(?:s|ed)|contend(?:s"
    r"|ed)|boast(?:s|ed)|advertis\w+|speculat\w+|doubt(?:s|ed)?|estimat(?:es?|ed)|according to|maintain(?:s|ed)"
    r"|hoax|legend|false|falsely|wrongly|untrue"
    r"|behaupte\w*|sag(?:t|te|ten|en)|laut|angeblich|zufolge|meint|meinen|glaub\w+|vermut\w+|soll|sollen|bestreite\w*|berichte\w*|erwarte\w*|Mythos|Gerücht\w*"
    r"|affirm\w+|prétend\w*|selon|d'après|dit|disent|estime\w*|accus\w+|nie|nient|croi\w+|mythe|rumeur"
    r"|asegur\w+|sosten\w*|sostien\w*|dice[n]?|dijo|según|afirm\w+|supuest\w+|cree[n]?|niega[n]?|mito|rumor|presunt\w+|acusa[n]?"
    r"|secondo|sostien\w+|afferma\w*|dice|dicono|crede\w*|mito|diz|dizem|segundo|alega\w*|volgens"
    r"|beweert|утвержда\w+|говор\w+|считают|якобы|по словам)\b"
    r"|称|说|据|认为|声称|زعم|يقول|قال|بحسب|وفقا",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:because|cause[sd]?|caus(?:ing|al)|due to|thanks to|as a result|result(?:s|ed)? in|led to"
    r"|leads? to|prevent(?:s|ed)?|therefore|thus|hence"
    r"|owing to|so that|responsible for|triggered|weil|wegen|dadurch|deshalb|daher|verursacht\w*"
    r"|führte zu|infolge|aufgrund|verhindert\w*"
    r"|parce que|à cause de?|grâce à|provoqu\w+|entraîn\w+|en raison de|donc|porque|a causa de|debido a"
    r"|gracias a|provoc\w+|por eso|evit[óa]"
    r"|perché|a causa di|grazie a|ha causato|потому что|из-за|вызва\w+)\b|因为|导致|造成|بسبب|أدى",
    re.IGNORECASE,
)


_FORCED = re.compile(
    r"\b(?:forc(?:e[sd]?|ing)|ma(?:de|kes?) \w+ \w+|brought about|zwang\w*|forcé\w*|oblig\w+)\b", re.IGNORECASE
)


_MANNERS = re.compile(
    r"\b(?:needless to say|it goes without saying(?: that)?|to say the least|that (?:being )?said"
    r"|sad(?:ly)? to say"
    r"|(?:i|we) (?:have to|must|should|would|am sorry to|can only) say(?: that)?|i(?:'d| would) say"
    r"|to be (?:fair|honest)|i(?:'m| am) afraid|il faut (?:le )?dire|cela dit|ceci dit|pour ainsi dire"
    r"|dicho (?:esto|sea de paso)|hay que decir|ehrlich gesagt|offen gesagt|wie gesagt|sozusagen"
    r"|ich muss sagen|detto questo|a dire il vero)\b",
    re.IGNORECASE,
)
"""Phrases with a word of saying that ascribe nothing to anybody."""
_PERHAPS = re.compile(
    r"\b(?:may|might|possibly|perhaps|könnte\w*|dürfte\w*|vielleicht|möglicherweise|pourrai\w+|peut-être|podría\w*"
    r"|quizás?|tal vez|potrebbe\w*|forse)\s",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"[,;]\s(?:but|however|yet|aber|doch|mais|pero|ma|mas)\s", re.IGNORECASE)
"""Where what somebody says ends and the text itself goes on: "I think it was great, but it opens at three"."""
_VERBAL = listed(
    "was were is are been be has had have can will would did does could should may might who which that"
)


def lost_qualifier(written: str, source: str) -> str | None:
    """What of the ``source`` sentence was cut off although the rest does not hold without it; None "
    "when nothing was."""
    source = _MANNERS.sub(" ", source)
    have = _content(written)
    for match in _CONDITION.finditer(source):
        edge = _CONDITION_EDGE.search(source, match.end())
        end = edge.start() if edge else len(source)
        rest = _content(source[: match.start()]) | _content(source[end:])
        inner = _content(source[match.end() : end]) - rest
        if inner and rest & have and not inner & have and not _CONDITION.search(written):
            return f"a condition was left out: {match[0]} ..."
    for match in _EXCEPTION.finditer(source):
        first = next((t.norm for t in tokens(source[match.end() :]) if is_content(t)), None)
        if first is not None and first not in have and not _EXCEPTION.search(written):
            return f"an exception was left out: {match[0]} {first}"
    for match in _LIMITS.finditer(source):
        first = next((t.norm for t in tokens(source[match.end() :]) if is_content(t)), None)
        if first in have and not _DENIES.search(written):
            return f"what limits it was left out: {match[0].strip()}"
    certain = _WILL.search(written)
    if certain and _MAY.search(source) and not (_WILL.search(source) or _MAY.search(written)):
        return f"what may be is said to be: {certain[0]}"
    for perhaps in _PERHAPS.finditer(source):
        first = next((t.norm for t in tokens(source[perhaps.end() :]) if is_content(t)), None)
        if first is not None and _said_plainly(first, have) and not _MAY.search(written):
            return f"what may be is said to be: {perhaps[0].strip()}"
    if complete := _COMPLETE.search(source):
        parts = [p for p in _LISTED.split(complete["list"]) if p.strip()]
        items = [i for p in parts if (i := _content(p))]
        # clauses and no list: "just six weeks, was ..."
        clauses = any(p.split()[0].lower() in _VERBAL for p in parts)
        if not clauses and any(i & have for i in items) and not all(i & have for i in items):
            return f"an item was left out of a list said to be complete: {complete[0][:60]}"
    for quantity in _PART.finditer(source):
        counted = next((t.norm for t in tokens(source[quantity.end() :]) if is_content(t)), None)
        numbered = any(t.kind == "number" for t in tokens(written))
        if counted in have and not numbered and not _ANY_PART.search(written):
            return f"it was left out of how many this is said: {quantity[0].strip()}"
    said = SAYS.search(source)
    told = _CONTRAST.split(source[said.end() :])[0] if said else ""
    if said and not SAYS.search(written) and have & _content(told):
        return f"it was left out who says so: {said[0]}"
    return None


def _said_plainly(norm: str, have: set[str]) -> bool:
    """Whether the word stands there, or the same with another ending: reduce, reduces."""
    return any(h == norm or (len(norm) > 3 and h.startswith(norm[:-1]) and len(h) - len(norm) < 4) for h in have)


def turned(own: Sequence[Token], source: Sequence[Token], similarity: float, written: str, text: str) -> list[str]:
    """A negation that comes or goes, a word negated by its prefix, numbers in another order: word by word.

    This holds in every script; what needs the structure of a language is in `denoise_core.text.facts`.
    """
    has, had = ({t.norm for t in side} for side in (own, source))
    reasons: list[str] = []
    new, gone = ([t.norm for t in side if t.kind == "negation"] for side in (own, source))
    if len(new) > len(gone) and not _in_one_word(source, has):
        reasons.append(f"negation is not in the text: {new[-1]}")
    elif len(gone) > len(new) and not _in_one_word(own, had) and (lost := _denied_no_more(source, has)):
        reasons.append(f"negation was left out: {lost}")
    for word in has - had:
        for prefix in NEGATING_PREFIXES:
            if prefix in has | had:
                continue  # "anti-inflammatory" in one word
            if prefix + word in had - has or (word.startswith(prefix) and word.removeprefix(prefix) in had - has):
                reasons.append(f"negation by prefix: {word}")
    numbers, stood = ([t.norm for t in side if t.kind == "number"] for side in (own, source))
    moved = similarity >= _ALIKE and sorted(numbers) == sorted(stood) and numbers != stood
    if moved and _by_measure(written) != _by_measure(text):
        reasons.append("numbers in another order")
    return reasons


def _by_measure(text: str) -> dict[str, list[str]]:
    """The numbers of a text in order, dates, times and each measure apart: a year may move past a price."""
    found: dict[str, list[str]] = {}
    for f in facts(text):
        if f.kind in ("number", "date", "time"):
            measure = UNITS[f.unit][0] if f.unit else f.kind
            found.setdefault(measure, []).append(f.norm)
    return found


def _in_one_word(side: Sequence[Token], other: set[str]) -> bool:
    """Whether a word denies by itself what the other side denies with a word of its own: childless, impossible."""
    roots = {norm[:4] for norm in other}
    return any(
        t.norm not in other and (t.norm in _DENYING or (t.norm.endswith("less") and t.norm[:4] in roots))
        for t in side
    )


def _denied_no_more(source: Sequence[Token], has: set[str]) -> str | None:
    """A negation of the source that is gone while the word after it, or before it at the end, is still there."""
    for i, token in enumerate(source):
        if token.kind == "negation" and token.norm not in has:
            after = next((t.norm for t in source[i + 1 :] if is_content(t)), source[i - 1].norm if i else "")
            if after in has:
                return token.norm
    return None


_ENDINGS = ("s", "ing", "ly", "ed", "men", "children")


def another_subject(own: Sequence[Token], source: Sequence[Token], new: Sequence[Token]) -> list[str]:
    """A name that opens a sentence in the place of another one; in that place capitals tell nothing.

    A bare word there that is no plural and no adverb is mostly a name ("Pasteur developed ...").
    """
    if not own or not source or own[0] not in new or own[0].norm == source[0].norm:
        return []
    here, there = own[0], source[0]
    rest = {t.norm for t in own[1:]}
    bare = all(is_content(t) and len(t.norm) > 2 and not t.norm.endswith(_ENDINGS) for t in (here, there))
    if bare and there.norm not in rest and sum(t.norm in rest for t in source[1:]) >= _ALIKE * (len(source) - 1):
        return [f"it says this of something else than {there.norm}: {here.norm}"]
    return []


_CLAUSES = re.compile(r";|,?\s(?:while|whereas|während|tandis que|mientras que)\s", re.IGNORECASE)
_MERGES = re.compile(r"[;]|\b(?:and|while|whereas|both|und|während|et|tandis|y|mientras|e|en|и)\b", re.IGNORECASE)


def crossed_clauses(own: Sequence[Token], source: str) -> list[str]:
    """Names or numbers of two clauses that the source holds against each other, said in one."""
    if any(_MERGES.fullmatch(t.norm) for t in own):
        return []
    clauses = [c for c in _CLAUSES.split(source) if c.strip()]
    facts = [{t.norm for t in tokens(c) if t.kind in ("name", "number")} for c in clauses]
    have = {t.norm for t in own}
    used = [
        mine & have
        for n, clause in enumerate(facts)
        if (mine := clause - set().union(*(f for m, f in enumerate(facts) if m != n)))
    ]
    two = [u for u in used if u]
    if len(clauses) > 1 and len(two) > 1:
        return [f"what is said of two things is said of one: {', '.join(sorted(set().union(*two)))[:60]}"]
    return []


def causes(written: str, source: str) -> list[str]:
    """A cause that the source does not name."""
    found = _CAUSE.search(written)
    named = _CAUSE.search(source) or _FORCED.search(source)
    return [f"a cause was put in: {found[0]}"] if found and not named else []


def _content(text: str) -> set[str]:
    return {t.norm for t in tokens(text) if is_content(t)}
