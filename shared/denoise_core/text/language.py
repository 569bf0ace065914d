"""Which language a text is in, as far as reading its numbers and months needs it: by its small words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from functools import lru_cache

from denoise_core.text.wordlists import words_by_key

_SMALL = {
    "en": "the of and is was in to that it for with on by from are were be as at this which had has have an not",
    "de": "der die das und ist war in den dem des ein eine nicht von mit für auf im zu wurde sich auch es an wird",
    "fr": "le la les des et est dans que qui une un du en pour par sur était il elle au aux ne pas ce avec",
    "es": "el la los las y en de que una un del por con para fue es se su al lo no como más sus está",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _SMALL.items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)

_WORD = re.compile(r"[^\W\d_]+")
_READ = 4000  # characters that decide
_SCRIPTS = words_by_key(
    """
    zh: CJK
    ja: HIRAGANA KATAKANA
    ko: HANGUL
    ar: ARABIC
    he: HEBREW
    ru: CYRILLIC
    el: GREEK
    th: THAI
    hi: DEVANAGARI
    """
)
_MARKS = (
    dict.fromkeys("ßäö", "de")
    | dict.fromkeys("ñ¿¡", "es")
    | dict.fromkeys("çèêœ", "fr")
)


@lru_cache(maxsize=1024)
def detect_language(text: str, default: str = "") -> str:
    """An ISO 639-1 code among en, de, fr, es and one for each other script; ``default`` when nothing tells.

    >>> detect_language("Die Schule wurde 1903 gegründet."), detect_language("48 %")
    ('de', '')
    """
    head = text[:_READ]
    script = _script(head)
    if script:
        return script
    count: defaultdict[str, float] = defaultdict(float)
    for raw in _WORD.findall(head):  # "war" is a German word, "War" hardly
        languages = _LANGUAGES_OF.get(raw.lower(), ())
        for language in languages:
            count[language] += (1.0 if raw.islower() else 0.4) / len(languages)
    for character in head.casefold():
        if character in _MARKS:
            count[_MARKS[character]] += 0.7
    ranked = sorted(count.items(), key=lambda x: -x[1])[:2]
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return default
    return ranked[0][0]


def _script(text: str) -> str:
    """The language that stands for a script other than Latin, when most letters are of it."""
    letters = [c for c in text[:400] if c.isalpha()]
    if not letters or all(c < "\u0370" for c in letters):
        return ""
    names = Counter(unicodedata.name(c, "LATIN").split()[0] for c in letters)
    if "HIRAGANA" in names or "KATAKANA" in names:
        return "ja"
    return _SCRIPTS.get(names.most_common(1)[0][0], "")
