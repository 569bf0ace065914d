"""Ways of asking that mean the same: "what is the height of it" asks how high it is. Data, and its use.

Both sides of a comparison are brought to one form first. Only the words that ask are touched, never what is
asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MEASURES = {
    "height": "high", "length": "long", "duration": "long", "depth": "deep", "width": "wide", "age": "old",
    "weight": "heavy", "speed": "fast", "size": "big", "thickness": "thick", "strength": "strong",
}  # fmt: skip
_LIKE = {"tall": "high", "large": "big", "quick": "fast", "quickly": "fast"}
_BE = r"(?:['’]s|\s{1,3}(?:is|was|are|were))"
_ORDER = r"(?:(?:tell|give|show) (?:me |us )?|(?:i (?:want|need) to know|i'd like to know) )"

_ENGLISH: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(rf"\b(?:what{_BE}|{_ORDER})\s{{0,3}}the (?:exact |total )?({'|'.join(_MEASURES)}) of\b", re.I),
        lambda m: f"how {_MEASURES[m[1].lower()]} is",
    ),
    (
        re.compile(rf"\bhow ({'|'.join(_LIKE)})\b(?! (?:number|amount))", re.I),
        lambda m: f"how {_LIKE[m[1].lower()]}",
    ),
    (
        re.compile(r"\bwhat (does|do|did|would|will) (.{1,120}?) (cost|weigh)\b", re.I),
        lambda m: f"how much {m[1]} {m[2]} {m[3]}",
    ),
    (re.compile(rf"\bwhat{_BE} the (?:price|cost) of\b", re.I), lambda _: "how much does it cost for"),
    (
        re.compile(
            rf"(?:\bwhat{_BE} |({_ORDER}))the name of "
            r"(?=(?:the|that) (?:\w+ )?(?:man|woman|person|people|girl|boy)\b)",
            re.I,
        ),
        lambda m: (m[1] or "") + "who is ",
    ),
    (re.compile(r"\bwhat number of\b", re.I), lambda _: "how many"),
    (
        re.compile(
            rf"\b(?:what{_BE}|({_ORDER}))\s?the (?:total |exact )?number of (?!the\b|my\b|your\b|an?\b)", re.I
        ),
        lambda m: (m[1] or "") + "how many ",
    ),
    (
        re.compile(
            rf"({_ORDER})the (?:exact )?(year|date|day|month|century)(?: (?:in|on) which| when| that)\b", re.I
        ),
        lambda m: f"tell me in which {m[2]}",
    ),
    (re.compile(rf"\bwhat{_BE} the reason (?:that|why|for which|behind the fact that)\b", re.I), lambda _: "why"),
    (re.compile(rf"\bwhat{_BE} the (?:exact )?location of\b", re.I), lambda _: "where is"),
    (re.compile(rf"\bwhat{_BE} the (?:\w+ )?(?:date|day|time) of\b", re.I), lambda _: "when is"),
    (
        re.compile(rf"\bwhat{_BE} the meaning of (.{{1,80}}?)(?=[?.!]|\Z)", re.I),
        lambda m: f"what does {m[1]} mean",
    ),
    (re.compile(r"\bat what age\b", re.I), lambda _: "how old"),
    (
        re.compile(
            r"\bis there any(?:thing to| truth (?:to|in|behind)) (?:the|this)"
            r" (?:claim|idea|rumou?r|story|saying|myth|belief)"
            r" that\b",
            re.I,
        ),
        lambda _: "is it true that",
    ),
    (re.compile(r"\bis it possible (?:for (?:me|one|us|you) )?to\b", re.I), lambda _: "can one"),
    (
        re.compile(
            rf"\bwhat{_BE} ((?:\S{{1,40}} ){{0,5}}\S{{1,40}}?)['’]s? ({'|'.join(_MEASURES)})(?=[?.!,]|\Z)", re.I
        ),
        lambda m: f"how {_MEASURES[m[2].lower()]} is {m[1]}",
    ),
    (
        re.compile(
            r"\b(who|what|when|where|why|how|which(?: \w+)?) (?:do you (?:think|reckon|believe|suppose|guess)"
            r"|would you say|do people (?:think|say))\b",
            re.I,
        ),
        lambda m: m[1],
    ),
    (re.compile(r"\bhow m(?:eny|anny|ani)\b", re.I), lambda _: "how many"),
    (re.compile(r"\bis there (?:any|a|some) way (?:to|of)\b", re.I), lambda _: "how can one"),
    (
        re.compile(r"\b(who|what|why|how|where|when|which) (?:on earth|the hell|the heck|in the world)\b", re.I),
        lambda m: m[1],
    ),
    (re.compile(r"\b(?:these days|nowadays|at the moment)\b", re.I), lambda _: ""),
)
_OTHERS = (
    (
        re.compile(
            r"\b(?:stimmt es,? dass|ist es (?:wahr|richtig),? dass|est-il vrai que|es verdad que|è vero che)\s",
            re.I,
        ),
        "",
    ),
    (re.compile(r"\bnoch ?mal\s", re.I), ""),
    (re.compile(r"\bwas (kostet|kosten|kostete|wiegt|wiegen)\b", re.I), r"wie viel \1"),
    (
        re.compile(r"\bquel(?:le)? est (?:le prix|le coût) (?:de la |de l'|du |des |de |d')", re.I),
        "combien coûte ",
    ),
    (re.compile(r"\bquel(?:le)? est la hauteur (?:de la |de l'|du |de |d')", re.I), "combien mesure "),
    (re.compile(r"\bcuál es el (?:precio|coste|costo) (?:de la |del |de )", re.I), "cuánto cuesta "),
    (re.compile(r"\bcuál es la altura (?:de la |del |de )", re.I), "cuánto mide "),
)
_OF_THE_TWO = re.compile(
    r"\b(which(?: one)?) of (?:the|these|those) (?:two|three|four)\b(?=\s{1,3}(?:is|was|has|have|had|are"
    r"|were|does|did|do"
    r"|can|will|would)\b)",
    re.I,
)

# Verbs in forms that share no stem, a verb a line.
IRREGULAR = {
    form: line.split()[0]
    for line in """
    write wrote written
    sink sank sunk
    win won
    build built
    begin began begun
    find found
    buy bought
    sell sold
    bring brought
    catch caught
    teach taught
    fight fought
    think thought
    make made
    come came
    become became
    give gave given
    take took taken
    run ran
    sing sang sung
    swim swam swum
    drink drank drunk
    speak spoke spoken
    break broke broken
    steal stole stolen
    choose chose chosen
    drive drove driven
    rise rose risen
    fly flew flown
    grow grew grown
    know knew known
    draw drew drawn
    throw threw thrown
    fall fell fallen
    eat ate eaten
    see saw seen
    lose lost
    leave left
    send sent
    spend spent
    lend lent
    keep kept
    sleep slept
    feel felt
    mean meant
    meet met
    lead led
    feed fed
    hold held
    stand stood
    tell told
    say said
    pay paid
    hear heard
    shoot shot
    freeze froze frozen
    wear wore worn
    bear bore born borne
    strike struck
    die died dies dying
    """.strip().splitlines()
    for form in line.split()
}


def one_form(text: str) -> str:
    """The text with the words that ask in one of the forms that mean the same."""
    for pattern, to in _ENGLISH:
        text = _replaced(pattern, to, text)
    for pattern, form in _OTHERS:
        text = _replaced(pattern, form, text)
    return _OF_THE_TWO.sub(r"\1 of them", text)


def _replaced(pattern: re.Pattern[str], to: Callable[[re.Match[str]], str] | str, text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        return _in_case(match[0], match.expand(to) if isinstance(to, str) else to(match))

    return pattern.sub(replaced, text)


def _in_case(was: str, now: str) -> str:
    """With a capital where there was one: it is by that that a sentence begins."""
    return now[:1].upper() + now[1:] if was[:1].isupper() else now
