"""One estimate of how many tokens a text has, and one budget from which texts are paid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CHARACTERS_PER_TOKEN = 4
"""Characters (code points) a token: a rule of thumb for alphabets, used where no tokenizer is at hand."""

_FIRST_WIDE = 0x2E80  # from here on (CJK scripts, emoji) a character is about a token


def estimate_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: four characters a token, of CJK scripts and emoji one.

    >>> estimate_tokens("The hall is old."), estimate_tokens("東京"), estimate_tokens("")
    (4, 2, 0)
    """
    wide = (
        0
        if text.isascii()
        else sum(ord(character) >= _FIRST_WIDE for character in text)
    )
    return -(-(len(text) - wide) // CHARACTERS_PER_TOKEN) + wide


@dataclass(slots=True)
class TokenBudget:
    """``limit`` tokens, spent text by text. ``count`` gives the tokens of a text, exactly or by estimate.

    >>> budget = TokenBudget(5)
    >>> budget.try_add("sixteen letters!"), budget.try_add("too long"), budget.try_add("fits"), budget.remaining_tokens
    (True, False, True, 0)
    """

    limit: int
    count_tokens: Callable[[str], int] = estimate_tokens
    spent_tokens: int = 0

    @property
    def remaining_tokens(self) -> int:
        """Tokens that may still be spent."""
        return self.limit - self.spent_tokens

    def try_add(self, text: str) -> bool:
        """Pay for a text; False, and nothing is paid, where it does not fit."""
        return self.try_spend(self.count_tokens(text))

    def try_spend(self, tokens: int) -> bool:
        """Pay so many tokens; False, and nothing is paid, where they are more than are left."""
        if tokens > self.remaining_tokens:
            return False
        self.spent_tokens += tokens
        return True
