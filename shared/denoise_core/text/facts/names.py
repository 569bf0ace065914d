"""Names of Latin, Greek and Cyrillic texts, and codes.

A name is a run of capitalised words with initials, hyphens and apostrophes. A code is
a word with a digit or an underscore inside. Scripts without capitals have no names
here; their characters are compared instead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from denoise_core.text.facts.fact import Fact
from denoise_core.text.facts.numbers import UNITS, is_roman_numeral
from denoise_core.text.lexemes import Lexemes
from denoise_core.text.stems import is_function_word

_SENTENCE_ENDINGS = frozenset(".!?:;…•。！？")
_OPENING_MARKS = frozenset("\"'“”‘’([*#>-«»¿¡_`")
# From this length on, an ending does not change a name: Spain's, Spaniards.
_MIN_STEM_LETTERS = 5
_MAX_ENDING_LETTERS = 3


def find_names(
    lexemes: Lexemes,
    language: str,
    used_positions: frozenset[int],
) -> Iterator[Fact]:
    """Yield the names of a text.

    German capitalises every noun, so only runs of words count there, all uncertain.

    Args:
        lexemes: The text after `pad_lexemes`.
        language: ISO 639-1 code.
        used_positions: Indices of lexemes that belong to a date.
    """
    finder = _NameFinder(lexemes, language, used_positions)
    i = 0
    while lexemes[i].text:
        if not finder.starts_name(i):
            i += 1
            continue
        after = finder.name_end(i)
        words = []
        for lexeme in lexemes[i:after]:
            if lexeme.kind == "word":
                words.append(lexeme.folded_text.removesuffix("'s").rstrip("'"))
        norm = " ".join(words)
        if len(norm) > 1:  # an initial alone is no name
            is_common = after == i + 1 and finder.may_be_common(i)
            yield Fact(
                "name",
                norm,
                lexemes[i].start,
                lexemes[after - 1].end,
                is_uncertain=is_common or language == "de",
            )
        i = after


def is_code_name(norm: str) -> bool:
    """Whether a name is one word with a digit or an underscore: a model, a setting."""
    if " " in norm:
        return False
    has_letter_and_digit = any(map(str.isdigit, norm)) and any(map(str.isalpha, norm))
    return "_" in norm or has_letter_and_digit


def same_name(claimed_name: str, source_name: str) -> bool:
    """Whether a name of the source has the claimed words, or is the claimed surname.

    Initials match first names. Half of a double name matches nothing.

    >>> same_name("j r r tolkien", "john ronald reuel tolkien")
    True
    >>> same_name("luc berger", "jean-luc berger")
    False
    """
    claimed_words = claimed_name.split()
    source_words = source_name.split()
    if _contains_words(source_words, claimed_words):
        return True
    is_surname = len(source_words) < len(claimed_words)
    is_surname = is_surname and source_words[-1] == claimed_words[-1]
    return is_surname and _contains_words(claimed_words, source_words)


def _contains_words(name_words: list[str], wanted_words: list[str]) -> bool:
    """Whether the name has all the wanted words in their order."""
    remaining_words = iter(name_words)

    def comes_next(wanted_word: str) -> bool:
        return any(_same_word(wanted_word, word) for word in remaining_words)

    return all(map(comes_next, wanted_words))


def _same_word(first_word: str, second_word: str) -> bool:
    words = map(_plain_letters, (first_word, second_word))
    short_word, long_word = sorted(words, key=len)
    if short_word == long_word:
        return True
    if is_code_name(short_word) or is_code_name(long_word):
        return False
    if is_roman_numeral(short_word.upper()) and is_roman_numeral(long_word.upper()):
        return False
    if len(short_word) == 1:
        return short_word == long_word[0]
    if len(short_word) < _MIN_STEM_LETTERS:
        return False
    ending_letters = len(long_word) - len(short_word)
    has_same_stem = long_word.startswith(short_word.rstrip("se"))
    return has_same_stem and ending_letters <= _MAX_ENDING_LETTERS


def _plain_letters(word: str) -> str:
    """Remove accents and hyphens."""
    symbols = unicodedata.normalize("NFKD", word).replace("-", "")
    return "".join(symbol for symbol in symbols if not unicodedata.combining(symbol))


class _NameFinder:
    def __init__(
        self,
        lexemes: Lexemes,
        language: str,
        used_positions: frozenset[int],
    ) -> None:
        self.lexemes = lexemes
        self.language = language
        self.used_positions = used_positions
        self.common_words = {
            lexeme.folded_text
            for lexeme in lexemes
            if lexeme.kind == "word" and not lexeme.is_capitalized
        }

    def starts_name(self, i: int) -> bool:
        lexeme = self.lexemes[i]
        word = lexeme.folded_text
        if lexeme.kind != "word" or i in self.used_positions:
            return False
        if is_code_name(word):
            return True
        is_numeral = is_roman_numeral(lexeme.text) and len(lexeme.text) > 1
        if is_numeral or not self.is_name_word(i):
            return False
        if self.language == "de" and not self.is_name_word(i + 1):
            return "-" in lexeme.text or "'" in word
        if not self.opens_sentence(i):
            return True
        is_function = is_function_word(word, self.language)
        return not is_function and word not in self.common_words

    def is_name_word(self, i: int) -> bool:
        """Whether this is a capitalised word, but no function word and no unit."""
        lexeme = self.lexemes[i]
        is_word = lexeme.kind == "word" and lexeme.is_capitalized
        if not is_word or i in self.used_positions:
            return False
        is_initial = len(lexeme.text) == 1 and self.lexemes[i + 1].text == "."
        is_function = is_function_word(lexeme.folded_text, self.language)
        if is_function and not is_initial and lexeme.text != "US":
            return False
        previous = self.lexemes[i - 1]
        after_number = previous.kind == "number" or previous.folded_text in UNITS
        return not (after_number and lexeme.folded_text in UNITS)

    def may_be_common(self, i: int) -> bool:
        """Whether a single capitalised word may be any word that opens a sentence.

        The only word of a text is a name.
        """
        lexeme = self.lexemes[i]
        has_inner_capital = any(map(str.isupper, lexeme.text[1:]))
        if has_inner_capital or "'" in lexeme.folded_text or not self.opens_sentence(i):
            return False
        return i > 0 or any(other.text not in ".!" for other in self.lexemes[1:])

    def opens_sentence(self, i: int) -> bool:
        """Whether the word begins a sentence, a line or a quotation."""
        before = i - 1
        while before >= 0 and self.lexemes[before].text in _OPENING_MARKS:
            before -= 1
        if before < 0 or self.lexemes[before].text in _SENTENCE_ENDINGS:
            return True
        return self.lexemes[i].starts_line or self.lexemes[before + 1].starts_line

    def name_end(self, i: int) -> int:
        """Return the index after the capitalised words and initials from ``i`` on."""
        after = i + 1
        if is_code_name(self.lexemes[i].folded_text):
            return after
        while not self.lexemes[after - 1].folded_text.endswith("'s"):
            is_initial = len(self.lexemes[after - 1].text) == 1
            at = after + (is_initial and self.lexemes[after].text == ".")
            lexeme = self.lexemes[at]
            is_part = self.is_name_word(at) or is_roman_numeral(lexeme.text)
            if not is_part or lexeme.starts_line or is_code_name(lexeme.folded_text):
                break
            after = at + 1
        return after
