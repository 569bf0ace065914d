"""One statement of a numbers reply: which numbers, and what is said of them.

A statement is a line, a sentence or what stands behind a colon. It is a *list* only when every word in it belongs
in one; prose that happens to hold digits is none.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from denoise_core.s2a.replies import lexicon as lex

_TOKEN = re.compile(r"\n|\d+|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\w\s]|_")
_DECIMAL = re.compile(r"\d\.{1,3}\d|\d[A-Za-z]|[A-Za-z]\d")
_CUT_OFF = re.compile(r"[,、，،]\s{0,9}$|\d\s{0,9}[-–—]\s{0,9}$")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PUNCTUATION = frozenset(",;:.、，；。،؛(){}[]【】「」<>#*`_&+|\"'“”„«»：!！¿¡…‐·")
LARGEST = 10**9

Range = tuple[int, int]


@dataclass(slots=True)
class Said:
    """What the words of a statement amount to. ``prose`` when one of them belongs in no list."""

    ranges: list[Range] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)
    keep: bool = False
    drop: bool = False
    negated: int = 0
    nothing: bool = False
    everything: bool = False
    exception: bool = False
    excepted: list[Range] = field(default_factory=list)
    yes: bool = False
    no: bool = False
    final: bool = False
    answer: bool = False
    piece: bool = False
    counted: bool = False
    prose: bool = False
    open: bool = False
    slashed: bool = False

    @property
    def polarity(self) -> str | None:
        """``keep`` or ``drop``, or ``both`` when the words say both; None when they say neither."""
        if self.keep and self.drop:
            return "both"
        if not self.keep and not self.drop:
            return None
        return "keep" if self.keep != bool(self.negated % 2) else "drop"

    @property
    def is_list(self) -> bool:
        """Whether it names numbers, nothing or everything, and is nothing but that."""
        named = bool(self.ranges) + self.nothing + (self.everything and not self.ranges)
        return not (self.prose or self.open or self.slashed or self.yes or self.no) and named == 1


def normal(text: str) -> str:
    """Compatibility forms folded (full-width digits and signs, not superscripts), zero-width characters gone."""
    if not text.isascii():
        text = "".join("?" if unicodedata.category(c) == "No" else c for c in text)
    return unicodedata.normalize("NFKC", text).translate({0x200B: None, 0x200E: None, 0x200F: None, 0xFEFF: None})


def read(text: str) -> Said:
    """The words of ``text``, which is normal already."""
    said = Said()
    pending = after_number = after_document = False
    target = said.ranges
    tokens = _tokens(text)
    for at, token in enumerate(tokens):
        word = token.lower()
        if token == "\n":  # a dash that begins the next line begins an item
            pending = after_number = after_document = False
            continue
        if word == "no" and not said.ranges and _means_none(tokens, at):
            said.nothing = True
            continue
        if word in ("no", "nos", "of", "de", "di", "von") and _before_a_number(tokens, at):
            said.prose = said.prose or (word[0] != "n" and after_number)  # "3 of the 9 pieces" counts them
            continue
        if token[0].isdecimal() or word in lex.NUMBER:
            if word == "one" and _is_anybody(tokens, at):
                continue
            if not token[0].isdecimal() and word in lex.ARTICLES_THAT_ARE_ONE and not after_number and said.prose:
                continue
            number = int(token) if token[0].isdecimal() and len(token) <= 9 else lex.NUMBER.get(word, LARGEST)
            before = tokens[at - 1].lower() if at else ""
            if before in lex.EVERYTHING and not said.exception:
                said.counted, after_number = True, False  # "all four"
                continue
            if after_document:
                said.documents.append(number)
            elif pending and target:
                target[-1] = (target[-1][0], number)
            else:
                target.append((number, number))
            pending, after_number = False, True
            continue
        was_number, after_number = after_number, False
        if word == "y" and was_number and tokens[at + 1 : at + 2] and tokens[at + 1][0].isdecimal():
            continue  # "4 y 5": no "yes" between two numbers
        if word in lex.RANGE and was_number and not after_document:
            pending, after_number = True, False
            continue
        if token in "()[]{}*`_【】" and token:
            after_number = was_number and token in ")]}*`_("
            after_document = after_document and not (token in ")]】" and said.documents)
            continue
        if word in _PUNCTUATION:
            after_document = after_document and token not in ",;:"
            continue
        pending = False
        if word == "/":
            said.slashed = True
        elif word in lex.DOCUMENT:
            after_document = True
            continue
        elif word == "~piece" or (word in lex.PIECE and word not in ("no", "nos")):
            if was_number and word[0] != "~" and target and not said.piece and target[-1][0] == target[-1][1]:
                target.pop()  # "3 pieces": how many, not which
                said.counted = True
            said.piece = True
            after_number = was_number and word[0] == "~"
        else:
            target = _word(said, word, target)
        after_document = after_document and word in lex.FILLER
    said.prose = said.prose or _DECIMAL.search(text) is not None or _said_twice(tokens)
    if said.negated and (said.drop or said.everything or (said.ranges and not said.keep)):
        said.prose = True  # "do not drop 2", "not all", "2 does not": what then stays is not said
    said.open = (
        pending or _CUT_OFF.search(text) is not None or (bool(tokens) and tokens[-1].lower() in lex.CONJUNCTIONS)
    )
    return said


def _said_twice(tokens: list[str]) -> bool:
    """Words that keep or drop stand on both sides of the numbers, or numbers on both sides of them: "2 and 4 are
    relevant, 1 and 3 are not", "2, not 3"; and "all relevant pieces", which names none."""
    blocks: list[str] = []
    words = [t.lower() for t in tokens if t not in "()[]{}*`_【】\"'"]
    for at, word in enumerate(words):
        verb = word in lex.KEEP or word in lex.DROP or word in lex.NEGATION
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        if before in lex.EVERYTHING and (word in lex.KEEP or word in lex.DROP):
            return True
        number = word[0].isdecimal() or (word in lex.NUMBER and word not in lex.ARTICLES_THAT_ARE_ONE)
        number = number and before not in lex.DOCUMENT and after not in lex.PIECE
        if number and after in lex.KEEP | lex.DROP and words[at + 2 : at + 3] and words[at + 2] in lex.PIECE:
            return True  # "3 relevant pieces": how many
        kind = "v" if verb else "n" if number else ""
        if kind and blocks[-1:] != [kind]:
            blocks.append(kind)
    return len(blocks) > 2 and "\n" not in tokens


def _means_none(tokens: list[str], at: int) -> bool:
    following = tokens[at + 1].lower() if at + 1 < len(tokens) else ""
    return following in lex.PIECE or following in lex.KEEP


_SHARE = frozenset(("of", "de", "di", "von"))


def _before_a_number(tokens: list[str], at: int) -> bool:
    share = tokens[at].lower() in _SHARE
    following = [t.lower() for t in tokens[at + 1 : at + 4] if t not in ".([\n"]
    if share:
        following = [t for t in following if t not in ("the", "den", "las", "los", "les", "dei")]
    return bool(following) and (following[0][0].isdecimal() or following[0] in lex.NUMBER)


def _is_anybody(tokens: list[str], at: int) -> bool:
    """Whether "one" is a person: "one needs 4", but not "piece one needs to stay"."""
    before = tokens[at - 1].lower() if at else ""
    return before not in lex.PIECE and at + 1 < len(tokens) and tokens[at + 1].lower() in lex.ANYBODY_DOES


def _word(said: Said, word: str, target: list[Range]) -> list[Range]:
    """Take one word in; returns where numbers go from here on."""
    known = True
    wide = any(a != b for a, b in said.ranges)  # "1-8 except 5"
    if word in lex.EXCEPT and (said.everything or said.exception or wide):
        said.exception = True
        return said.excepted
    if word in lex.EVERYTHING or word == "all":
        said.everything = True
    elif word in lex.NOTHING:
        said.nothing = True
    elif word == "no":
        said.negated += 1
        said.no = True
    elif word in lex.NEGATION:
        said.negated += 1
        said.no = said.no or word in lex.NO
    elif word in lex.KEEP:
        said.keep = True
    elif word in lex.DROP:
        said.drop = True
    elif word in lex.FINAL:
        said.final = True
    elif word in lex.ANSWER:
        said.answer = True
    elif word in lex.YES:
        said.yes = True
    elif word in lex.NO:
        said.no = True
    elif word in lex.EXCEPT:
        said.prose = True
    else:
        known = word in lex.FILLER or word in lex.RANGE
    said.prose = said.prose or not known
    return target


def _tokens(text: str) -> list[str]:
    out: list[str] = []
    for token in _TOKEN.findall(text):
        if not _CJK.match(token) or token in lex.NUMBER:
            # "y2" and "و5" are glued: a conjunction before a number is no word of its own in Arabic.
            out.append(token.removeprefix("و") if token in ("و",) else token)
            continue
        out += _run(token)
    return [t for t in out if t]


def _run(token: str) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(token):
        if token[at] in lex.NUMBER:
            out.append(token[at])
            at += 1
            continue
        for run, means in lex.RUNS:
            if token.startswith(run, at):
                out += [means] if means else []
                at += len(run)
                break
        else:
            return ["\x00prose"]
    return out


def verdict(text: str) -> str | None:
    """``yes`` or ``no`` when the text behind a number says whether the piece stays; ``unclear`` for a mark."""
    if re.match(r"\d+(?:\.\d+)?\s{0,9}(?:/\s{0,9}\d+|%|\s{0,9}$)", text):
        return "unclear"
    if text.strip(" .*_`").lower() in ("y", "n"):
        return "yes" if "y" in text.lower() else "no"
    first = re.split(r"[.,;:(—–。，；]|\s-\s", text, maxsplit=1)[0]
    said = read(first)
    if said.prose or said.ranges or len(first) > 60:
        return None
    if polarity := said.polarity:
        return {"keep": "yes", "drop": "no"}.get(polarity, "unclear")
    if said.yes != said.no:
        return "yes" if said.yes else "no"
    return "no" if said.nothing else None
