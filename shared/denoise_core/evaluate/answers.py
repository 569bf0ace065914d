"""Whether a text holds an answer, as open-domain question answering counts it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

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
