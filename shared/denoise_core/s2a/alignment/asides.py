"""What of a sentence that asks only guesses, pushes or is said in passing: data, and how it is taken away."""

from __future__ import annotations

import re

from denoise_core.s2a.alignment.asking import BELIEF, kind_of
from denoise_core.s2a.alignment.matching import tokens
from denoise_core.s2a.alignment.qualifiers import SAYS
from denoise_core.text.facts.kinds.units import UNITS
from denoise_core.text.tokens import is_content

TAGGED = re.compile(
    r",\s{0,3}(?:can|could|is|isn't|was|wasn't|are|aren't|do|don't|does|doesn't|did|didn't|will|won't|would|wouldn't|has|hasn't|have"
    r"|haven't|should|shouldn't) (?:it|he|she|they|that|there|you|we|i)\s{0,3}\?\W{0,4}\Z",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(?:[,;]|\s[–—-])\s{1,9}(?:(?:which|who|that|was|ce que|lo que)\s{1,9})?"
    r"(?P<although>(?:(?:even )?though|although|obwohl|auch wenn|bien que|même si|aunque|anche se"
    r"|sebbene)\s{1,9})?"
    r"(?:i|we|my|our|ich|wir|mein\w{0,2}|je|mon|ma|yo|mi|io|eu)\s[^,;.?!–—]{1,120}"
    r"(?=[,;.?!–—]|\Z)",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"(?:[,;]|\s[–—-])\s{1,9}(?:(?:it|that|this)\s{1,9})?(?:(?:must|should|could|might|has to|got to|ought to)"
    r" (?:be|have been)|probably|presumably|surely|supposedly|vermutlich|bestimmt|wohl|sicher|sans doute"
    r"|probablement|sûrement|seguramente|probablemente|probabilmente)\s[^,;.?!–—]{1,80}(?=[.?!]|\Z)",
    re.IGNORECASE,
)
"""A guess without a subject of its own behind a question: ", must be about 100"."""
ELLIPTIC = re.compile(
    r"\A\W{0,6}(?:must|should|could|might|would|can't|may|ought to|has to|got to)(?: not| surely| probably)?"
    r" (?:be|have been)\b",
    re.IGNORECASE,
)
"""A sentence that lacks its subject is a guess, whatever mark it ends with: "Should be 100 as always, no?" """
PUSHED = re.compile(r"(?:よね|でしょう?|だろう|じゃない|吧|对吗|是吗|没错)[?？。！!]{0,2}\Z")
"""Chinese and Japanese tags at the end of a sentence that wants to be agreed with."""
_BRACKETED = re.compile(r"\s?\((?P<inner>[^()]{1,120})\)")
_DASHED = re.compile(
    r"\s[–—-]{1,2}\s{1,3}(?P<guess>[^\s?,;:–—-](?:[^?,;:–—]|,(?=\d)){0,40}?)\s{0,9}(?P<mark>[?？؟])\s{0,9}\Z"
)
_CHOICE = re.compile(r"\b(?:or|vs|versus|oder|ou|o|of|или)\b", re.IGNORECASE)
RHETORICAL = re.compile(
    r"\A\W{0,6}(?:(?:so |but |and )?why (?:on earth |the hell )?would any(?:one|body)|who (?:cares|would have)"
    r"|warum sollte (?:jemand|man)|pourquoi quelqu'un)\b",
    re.IGNORECASE,
)
_TAGS = (
    r"(?:right|correct|no|yes|yeah|(?:is|was|does|did|are|were|has|have)n't (?:it|he|she|they|that)|oder"
    r"|nicht wahr|ja|richtig|stimmt's|gell"
    r"|n'est-ce pas|non|hein|pas vrai|verdad|no es así|cierto|né|vero|giusto|toch)"
)
_CLAIMS = (
    r"(?:(?:it|he|she|that|this|they|das|es|er|sie|dies|ce|il|elle|c'|eso|esto)\s{0,3}(?:is|was|'s|were|are|ist|war|sind|waren|est|était)"
    r"|(?:fue|era|es|son|fueron|sono|foi|está)\b)"
)
_CLAIMED = re.compile(
    rf"(?:[,;]|\s[–—-])\s{{0,9}}{_CLAIMS}\b[^?;]{{1,120}},\s{{0,9}}¿?{_TAGS}\s{{0,9}}(?P<mark>[?？])\s{{0,9}}\Z",
    re.IGNORECASE,
)
"""", it was Vermeer, wasn't it?" behind a question"""
CLAIM = re.compile(
    rf"\A\W{{0,6}}{_CLAIMS}\b[^?]{{1,120}},\s{{0,9}}¿?{_TAGS}\s{{0,9}}[?？]\s{{0,9}}\Z", re.IGNORECASE
)
_GUESS = re.compile(r",(?!\d)\s{0,9}(?P<guess>[\w\s.,%-]{1,30}?)\s{0,9}(?P<mark>[?？؟])\s{0,9}\Z")
_ABOUT = re.compile(
    r"\b(?:something like|like|around|about|roughly|approximately|maybe|perhaps|say|or (?:so|thereabouts"
    r"|something)|in|etwa|ungefähr|oder so|environ|unos?|o así)\b",
    re.I,
)
_THINKS = re.compile(
    r"\b(?:i|ich|je|yo|io|eu)(?:'m|'d)? (?:\w+ ){0,2}?(?:think|believe|guess\w*|suppose|reckon|bet|assume|suspect"
    r"|doubt|imagine|say|recall|glaube|denke|meine|schätze|vermute|tippe|crois|pense|dirais|parie|suppose|creo|pienso"
    r"|supongo|diría|apuesto|credo|penso|direi|suppongo|scommetto|acho)\b",
    re.IGNORECASE,
)


def without_asides(sentence: str) -> tuple[str, list[str]]:
    """A sentence without what the person says of himself in passing: ", my favourite season", ", five?"."""
    asides = [m[0] for m in _ASIDE.finditer(sentence) if _says_nothing(m)]
    asides += [m[0] for m in _SUPPOSED.finditer(sentence)]
    asides += [m[0] for m in _BRACKETED.finditer(sentence) if BELIEF.search(m["inner"])]
    for aside in asides:
        sentence = sentence.replace(aside, "", 1)
    claimed = _CLAIMED.search(sentence)
    if claimed and kind_of(sentence):
        asides.append(claimed[0])
        sentence = sentence[: claimed.start()] + claimed["mark"]
    guess, dashed = _GUESS.search(sentence), _DASHED.search(sentence)
    if guess and kind_of(sentence) and _guesses(guess["guess"], "number"):
        asides.append(guess["guess"])
        sentence = sentence[: guess.start()] + guess["mark"]
    elif dashed and kind_of(sentence) not in (None, "polar") and _is_name_or_number(dashed["guess"]):
        asides.append(dashed["guess"])
        sentence = sentence[: dashed.start()] + dashed["mark"]
    return sentence, asides


def _is_name_or_number(text: str) -> bool:
    return not _CHOICE.search(text) and _guesses(text, "number", "name")


def _guesses(text: str, *kinds: str) -> bool:
    """Whether the text holds nothing but facts of these kinds, units and words of "about"."""
    found = tokens(_ABOUT.sub("", text))
    return all(t.kind in kinds or t.norm in UNITS or ("name" in kinds and not is_content(t)) for t in found)


def _says_nothing(aside: re.Match[str]) -> bool:
    """Whether what the person says of himself in passing may go: no number but one that is believed."""
    if aside["although"]:
        return (BELIEF.search(aside[0]) or SAYS.search(aside[0])) is not None
    return _THINKS.search(aside[0]) is not None or not any(t.kind == "number" for t in tokens(aside[0]))
