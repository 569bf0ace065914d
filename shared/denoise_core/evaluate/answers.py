"""Whether a text holds an answer or is one, as open-domain question answering counts it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from denoise_core.text.words import without_articles, words

_PIECE = re.compile(r"[^\W_]+|[^\w\s]", re.UNICODE)


def holds_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers stands in ``text`` as whole words, letter case and accents' coding aside.

    The rule of DPR's ``has_answer``: tokens of the answer follow each other among those of the text. An
    answer without any token is never found.
    """
    tokens = _tokens(text)
    joined = "\0" + "\0".join(tokens) + "\0"
    return any((wanted := _tokens(a)) and "\0" + "\0".join(wanted) + "\0" in joined for a in answers)


def _tokens(text: str) -> list[str]:
    return _PIECE.findall(unicodedata.normalize("NFD", text).casefold())


def exact_match(text: str, answers: Iterable[str]) -> bool:
    """Whether ``text`` is one of the answers, letter case, punctuation and articles aside (SQuAD's rule)."""
    said = without_articles(words(text))
    return any(said == wanted for a in answers if (wanted := without_articles(words(a))))


def token_f1(text: str, answers: Iterable[str]) -> float:
    """The best F1 of the words of ``text`` and those of an answer, 0 to 1 (SQuAD's rule)."""
    said = Counter(without_articles(words(text)))
    best = 0.0
    for answer in answers:
        wanted = Counter(without_articles(words(answer)))
        common = sum((said & wanted).values())
        if common:
            best = max(best, 2 * common / (sum(said.values()) + sum(wanted.values())))
    return best
