"""Numbers in words: cardinals and ordinals of English, German, French and Spanish, and Roman numerals."""

from __future__ import annotations

import re
from functools import lru_cache


def _row(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {w: first + step * n for n, w in enumerate(words.split())}


def _pairs(text: str) -> dict[str, int]:
    return {w: int(v) for w, v in (part.split(":") for part in text.split())}


# Articles that also mean one (ein, un, una) are no numbers: hardly ever is the count meant.
CARDINALS: dict[str, dict[str, int]] = {
    "en": _row(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen"
    )
    | _row("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
    | {"fourty": 40, "dozen": 12},
    "de": _row(
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
        "siebzehn achtzehn neunzehn"
    )
    | _row("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 20, 10)
    | {"dreier": 3, "zweier": 2, "zwo": 2, "dreissig": 30, "dutzend": 12},
    "fr": _row("zéro _ deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize")
    | _row("vingt trente quarante cinquante soixante", 20, 10)
    | {"vingts": 20, "septante": 70, "huitante": 80, "nonante": 90, "douzaine": 12},
    "es": _row("cero _ dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince")
    | _row("dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro", 16)
    | _row("veinticinco veintiséis veintisiete veintiocho veintinueve", 25)
    | _row("treinta cuarenta cincuenta sesenta setenta ochenta noventa", 30, 10)
    | _row(
        "doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos", 200, 100
    )
    | {"veintiún": 21, "ciento": 100, "docena": 12, "doscientas": 200, "quinientas": 500},
}
SCALES: dict[str, dict[str, int]] = {
    "en": _pairs("hundred:100 thousand:1000 million:1000000 billion:1000000000 trillion:1000000000000")
    | _pairs("millions:1000000 billions:1000000000 mn:1000000 bn:1000000000 tn:1000000000000 thousands:1000"),
    "de": _pairs("hundert:100 tausend:1000 million:1000000 millionen:1000000 mio:1000000 milliarde:1000000000")
    | _pairs("milliarden:1000000000 mrd:1000000000 billion:1000000000000 billionen:1000000000000 tsd:1000"),
    "fr": _pairs("cent:100 cents:100 mille:1000 million:1000000 millions:1000000 milliard:1000000000")
    | _pairs("milliards:1000000000 billion:1000000000000 billions:1000000000000"),
    "es": _pairs("cien:100 mil:1000 millón:1000000 millones:1000000 billón:1000000000000 billones:1000000000000"),
}
IDEOGRAPH_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
IDEOGRAPH_DIGITS = _row("〇 一 二 三 四 五 六 七 八 九") | {"零": 0, "两": 2, "兩": 2}
JOINERS = {"en": ("and",), "de": ("und",), "fr": ("et",), "es": ("y",)}
ONES = {"ein": 1, "eine": 1, "un": 1, "une": 1, "una": 1, "uno": 1}  # articles, too

ORDINALS: dict[str, dict[str, int]] = {
    "en": _row("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth", 1)
    | _row("fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth", 14)
    | _row("thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth hundredth", 30, 10),
    "de": {
        stem + ending: n
        for stem, n in _row("erst zweit dritt viert fünft sechst siebt acht neunt zehnt elft zwölft", 1).items()
        for ending in ("e", "er", "en", "es", "em")
    },
    "fr": _pairs("premier:1 première:1 deuxième:2 troisième:3 quatrième:4 cinquième:5 sixième:6 septième:7")
    | _pairs("huitième:8 neuvième:9 dixième:10 onzième:11 douzième:12 seconde:2"),
    "es": _pairs("primero:1 primera:1 primer:1 segunda:2 tercero:3 tercera:3 tercer:3 cuarto:4")
    | _pairs(
        "quinto:5 quinta:5 sexto:6 sexta:6 séptimo:7 séptima:7 octavo:8 octava:8 noveno:9 novena:9 décimo:10"
    ),
}
_ORDINAL_DIGITS = re.compile(r"(\d+)(?:st|nd|rd|th|er|re|e|ème|º|ª|o|a)$")
FRACTIONS: dict[str, float] = {
    "half": 1 / 2, "third": 1 / 3, "thirds": 1 / 3, "quarter": 1 / 4, "quarters": 1 / 4, "fifth": 1 / 5,
    "fifths": 1 / 5, "tenth": 1 / 10, "tenths": 1 / 10, "eighth": 1 / 8, "sixth": 1 / 6,
    "hälfte": 1 / 2, "halbe": 1 / 2, "halben": 1 / 2, "halbes": 1 / 2, "drittel": 1 / 3, "viertel": 1 / 4,
    "fünftel": 1 / 5, "zehntel": 1 / 10,
    "moitié": 1 / 2, "demi": 1 / 2, "tiers": 1 / 3, "quart": 1 / 4, "dixième": 1 / 10,
    "mitad": 1 / 2, "medio": 1 / 2, "media": 1 / 2, "tercio": 1 / 3, "tercios": 1 / 3, "décima": 1 / 10,
}  # fmt: skip

_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3}|C{1,2})?(?:IX|IV|V?I{0,3})$")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def cardinal(word: str, language: str) -> int | None:
    """The value of one folded word, German and hyphenated compounds included.

    >>> cardinal("twenty-one", "en"), cardinal("einundzwanzig", "de"), cardinal("quatre-vingt-dix", "fr")
    (21, 21, 90)
    """
    known = CARDINALS.get(language, CARDINALS["en"])
    if word in known:
        return known[word]
    if language == "de":
        return _german(word)
    if "-" in word and len(word) <= 40:
        return _compound(word.split("-"), language)
    return None


def ordinal(word: str, language: str) -> int | None:
    """
    >>> ordinal("4th", "en"), ordinal("twenty-first", "en"), ordinal("sechste", "de")
    (4, 21, 6)
    """
    if match := _ORDINAL_DIGITS.match(word):
        return int(match[1]) if len(match[1]) <= 4 else None
    known = ORDINALS.get(language, ORDINALS["en"])
    if word in known:
        return known[word]
    head, _, last = word.rpartition("-")
    if head in CARDINALS["en"] and last in ORDINALS["en"]:
        return CARDINALS["en"][head] + ORDINALS["en"][last]
    return None


def roman(word: str) -> int | None:
    """The value of a Roman numeral in capitals up to 299; None for anything else.

    >>> roman("XIV"), roman("IIX"), roman("Mix")
    (14, None, None)
    """
    if not _ROMAN.match(word):
        return None
    values = [_ROMAN_VALUES[c] for c in word]
    return sum(-v if n + 1 < len(values) and v < values[n + 1] else v for n, v in enumerate(values))


def _compound(parts: list[str], language: str) -> int | None:
    total = 0
    known, scales = CARDINALS.get(language, CARDINALS["en"]), SCALES.get(language, SCALES["en"])
    for n, part in enumerate(parts):
        if part in JOINERS.get(language, JOINERS["en"]):
            continue
        value = known.get(part, ONES.get(part) if n else None)
        if value is None and part in scales:
            total = max(total, 1) * scales[part]
            continue
        if value is None:
            return None
        total = 80 if language == "fr" and total == 4 and value == 20 else total + value
    return total


@lru_cache(maxsize=4096)
def _german(word: str) -> int | None:
    """Compounds written in one word: zweihundertfünfzig, einundzwanzig."""
    if len(word) > 60:
        return None
    known = CARDINALS["de"]
    if word in known:
        return known[word]
    for name, scale in (("tausend", 1000), ("hundert", 100)):
        head, found, tail = word.partition(name)
        if found:
            before = 1 if not head else ONES.get(head) or _german(head)
            after = 0 if not tail else _german(tail.removeprefix("und"))
            return None if before is None or after is None else before * scale + after
    head, found, tail = word.partition("und")
    if found and tail in known and known[tail] >= 20:
        ones = ONES.get(head) or known.get(head)
        return None if ones is None else known[tail] + ones
    return None
