"""Tell the language of a text, in two ways.

`detect_language` counts frequent words of four languages. It needs no extra and is good
enough to read numbers and months, and to choose function words and stems. `identify_language`
has a detector for 139 languages weigh letter sequences, and does not answer where they are
weak evidence, as in tables, code and names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from functools import cache
from typing import Any

from denoise_core._optional import require
from denoise_core.text.wordlists import words_by_key
from denoise_core.weighted_cache import cache_by_bytes

_FREQUENT_WORDS = {
    "en": "the of and is was in to that it for with on by from are were be as at this "
    "which had has have an not",
    "de": "der die das und ist war in den dem des ein eine nicht von mit für auf im zu "
    "wurde sich auch es an wird",
    "fr": "le la les des et est dans que qui une un du en pour par sur était il elle au "
    "aux ne pas ce avec",
    "es": "el la los las y en de que una un del por con para fue es se su al lo no como "
    "más sus está",
}
_LANGUAGES_OF_WORD: dict[str, list[str]] = {}
for _language, _words in _FREQUENT_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF_WORD.setdefault(_word, []).append(_language)

_WORD = re.compile(r"[^\W\d_]+")
_DETECTION_CHARACTERS = 4000
_SCRIPT_CHARACTERS = 400
_LAST_LATIN = "\u0370"  # Greek begins here
_SCRIPT_LANGUAGES = words_by_key(
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
_SPECIAL_LETTERS = (
    dict.fromkeys("ßäö", "de")
    | dict.fromkeys("ñ¿¡", "es")
    | dict.fromkeys("çèêœ", "fr")
)
# "war" is a German word, "War" hardly ever: a capitalised word counts less.
_CAPITALIZED_WEIGHT = 0.4
_LETTER_WEIGHT = 0.7
MIN_CONFIDENCE = 0.5  # of `identify_language`: more likely than all others together
# Nigerian Pidgin has English words and spelling: short English texts are taken for it.
_ENGLISH_CREOLE = "pcm"
_NO_LANGUAGE = ("und", "zxx")  # undetermined, and no linguistic content


@cache_by_bytes("identified languages", 2**20, bytes_per_character=4)
def identify_language(text: str) -> str:
    """Return the ISO 639-1 code of the language that a text is most likely in.

    Args:
        text: Its first 4,000 characters decide.

    Returns:
        "" where no language is more likely than all others together (py3langid). Its
        probabilities account for the text's length.

    Raises:
        MissingExtra: The extra ``embedded`` is not installed.
    """
    if not any(map(str.isalpha, text)):
        return ""
    code, _ = _language_detector().classify(text[:_DETECTION_CHARACTERS])
    if code == _ENGLISH_CREOLE:
        return "en"
    return "" if code in _NO_LANGUAGE else str(code)


@cache
def _language_detector() -> Any:
    langid = require("py3langid.langid", extra="embedded")
    return langid.LanguageIdentifier.from_model_file(
        langid.MODEL_FILE, norm_probs=True, min_confidence=MIN_CONFIDENCE
    )


@cache_by_bytes("languages", 4 * 2**20, bytes_per_character=4)
def detect_language(text: str, default: str = "") -> str:
    """Return an ISO 639-1 code: en, de, fr, es, or one for each non-Latin script.

    >>> detect_language("Die Schule wurde 1903 gegründet."), detect_language("48 %")
    ('de', '')

    Args:
        text: Its first 4,000 characters decide.
        default: Returned if nothing, or a tie, decides.
    """
    text_head = text[:_DETECTION_CHARACTERS]
    script_language = _detect_script(text_head)
    if script_language:
        return script_language
    scores: defaultdict[str, float] = defaultdict(float)
    for raw_word in _WORD.findall(text_head):
        languages = _LANGUAGES_OF_WORD.get(raw_word.lower(), ())
        weight = _CAPITALIZED_WEIGHT
        if raw_word.islower():
            weight = 1.0
        for language in languages:
            scores[language] += weight / len(languages)
    for letter in text_head.casefold():
        if letter in _SPECIAL_LETTERS:
            scores[_SPECIAL_LETTERS[letter]] += _LETTER_WEIGHT
    best_score = max(scores.values(), default=0.0)
    best_languages = [code for code, score in scores.items() if score == best_score]
    if len(best_languages) == 1:
        return best_languages[0]
    return default


def _detect_script(text: str) -> str:
    """Return the language of a non-Latin script that most letters belong to."""
    letters = list(filter(str.isalpha, text[:_SCRIPT_CHARACTERS]))
    if not letters or max(letters) < _LAST_LATIN:
        return ""
    scripts = [unicodedata.name(letter, "LATIN").split()[0] for letter in letters]
    if "HIRAGANA" in scripts or "KATAKANA" in scripts:
        return "ja"
    main_script = Counter(scripts).most_common(1)[0][0]
    return _SCRIPT_LANGUAGES.get(main_script, "")
