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
            if lexeme.kind != "word":
                continue
            word = lexeme.folded_text.removesuffix("'s")
            bare_word = word.rstrip("'")
            words.append(bare_word)
        norm = " ".join(words)
        if len(norm) > 1:  # an initial alone is no name
            is_single = after == i + 1
            is_common = is_single and finder.may_be_common(i)
            is_uncertain = is_common or language == "de"
            start = lexemes[i].start
            end = lexemes[after - 1].end
            yield Fact(
                "name",
                norm,
                start,
                end,
                is_uncertain=is_uncertain,
            )
        i = after


def is_code_name(norm: str) -> bool:
    """Whether a name is one word with a digit or an underscore: a model, a setting."""
    if " " in norm:
        return False
    if "_" in norm:
        return True
    has_digit = any(map(str.isdigit, norm))
    has_letter = any(map(str.isalpha, norm))
    return has_digit and has_letter


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
    is_shorter = len(source_words) < len(claimed_words)
    if not is_shorter:
        return False
    is_surname = source_words[-1] == claimed_words[-1]
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
    is_short_numeral = is_roman_numeral(short_word.upper())
    is_long_numeral = is_roman_numeral(long_word.upper())
    if is_short_numeral and is_long_numeral:
        return False
    short_length = len(short_word)
    if short_length == 1:
        return short_word == long_word[0]
    if short_length < _MIN_STEM_LETTERS:
        return False
    ending_letters = len(long_word) - short_length
    if ending_letters > _MAX_ENDING_LETTERS:
        return False
    stem = short_word.rstrip("se")
    return long_word.startswith(stem)


def _plain_letters(word: str) -> str:
    """Remove accents and hyphens."""
    decomposed_word = unicodedata.normalize("NFKD", word)
    letters = []
    for symbol in decomposed_word:
        is_mark = symbol == "-" or unicodedata.combining(symbol)
        if not is_mark:
            letters.append(symbol)
    return "".join(letters)


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
        self.common_words = set()
        for lexeme in lexemes:
            is_word = lexeme.kind == "word"
            if is_word and not lexeme.is_capitalized:
                self.common_words.add(lexeme.folded_text)

    def starts_name(self, i: int) -> bool:
        lexeme = self.lexemes[i]
        word = lexeme.folded_text
        if lexeme.kind != "word" or i in self.used_positions:
            return False
        if is_code_name(word):
            return True
        has_letters = len(lexeme.text) > 1
        if has_letters and is_roman_numeral(lexeme.text):
            return False
        if not self.is_name_word(i):
            return False
        if self.language == "de" and not self.is_name_word(i + 1):
            return "-" in lexeme.text or "'" in word
        if not self.opens_sentence(i):
            return True
        if is_function_word(word, self.language):
            return False
        return word not in self.common_words

    def is_name_word(self, i: int) -> bool:
        """Whether this is a capitalised word, but no function word and no unit."""
        lexeme = self.lexemes[i]
        is_word = lexeme.kind == "word" and lexeme.is_capitalized
        if not is_word or i in self.used_positions:
            return False
        following = self.lexemes[i + 1]
        is_single = len(lexeme.text) == 1
        is_initial = is_single and following.text == "."
        word = lexeme.folded_text
        is_function = is_function_word(word, self.language)
        if is_function and not is_initial and lexeme.text != "US":
            return False
        if word not in UNITS:
            return True
        previous = self.lexemes[i - 1]
        is_after_number = previous.kind == "number"
        return not is_after_number and previous.folded_text not in UNITS

    def may_be_common(self, i: int) -> bool:
        """Whether a single capitalised word may be any word that opens a sentence.

        The only word of a text is a name.
        """
        lexeme = self.lexemes[i]
        inner_letters = lexeme.text[1:]
        has_inner_capital = any(map(str.isupper, inner_letters))
        if has_inner_capital or "'" in lexeme.folded_text:
            return False
        if not self.opens_sentence(i):
            return False
        if i > 0:
            return True
        return any(other.text not in ".!" for other in self.lexemes[1:])

    def opens_sentence(self, i: int) -> bool:
        """Whether the word begins a sentence, a line or a quotation."""
        before = i - 1
        while before >= 0 and self.lexemes[before].text in _OPENING_MARKS:
            before -= 1
        if before < 0:
            return True
        if self.lexemes[before].text in _SENTENCE_ENDINGS:
            return True
        first_mark = self.lexemes[before + 1]
        return self.lexemes[i].starts_line or first_mark.starts_line

    def name_end(self, i: int) -> int:
        """Return the index after the capitalised words and initials from ``i`` on."""
        after = i + 1
        if is_code_name(self.lexemes[i].folded_text):
            return after
        while not self.lexemes[after - 1].folded_text.endswith("'s"):
            at = after
            is_initial = len(self.lexemes[after - 1].text) == 1
            if is_initial and self.lexemes[after].text == ".":
                at += 1
            lexeme = self.lexemes[at]
            is_part = self.is_name_word(at) or is_roman_numeral(lexeme.text)
            if not is_part or lexeme.starts_line:
                break
            if is_code_name(lexeme.folded_text):
                break
            after = at + 1
        return after
