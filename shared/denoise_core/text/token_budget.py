"""One estimate of the tokens of a text, and one budget that texts are paid from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from denoise_core.types import Message, Usage

CHARACTERS_PER_TOKEN = 4
"""Code points a token: a rule of thumb for alphabets, used without a tokenizer."""

# From here on (CJK scripts, emoji) a character is about one token.
_FIRST_WIDE_CODE_POINT = 0x2E80


def estimate_tokens(text: str) -> int:
    """Estimate tokens without a tokenizer.

    Four characters count as one token; each CJK character or emoji as one.

    >>> estimate_tokens("The hall is old."), estimate_tokens("東京"), estimate_tokens("")
    (4, 2, 0)
    """
    wide_characters = 0
    if not text.isascii():
        wide_characters = sum(ord(symbol) >= _FIRST_WIDE_CODE_POINT for symbol in text)
    narrow_characters = len(text) - wide_characters
    return -(-narrow_characters // CHARACTERS_PER_TOKEN) + wide_characters


def estimate_usage(messages: Iterable[Message], reply_text: str = "") -> Usage:
    """Estimate the tokens of a call for which the model reports none."""
    prompt = "".join(message.content for message in messages)
    prompt_tokens = estimate_tokens(prompt)
    reply_tokens = estimate_tokens(reply_text)
    return Usage(prompt_tokens, reply_tokens, is_estimated=True)


@dataclass(slots=True)
class TokenBudget:
    """A number of tokens, spent text by text.

    >>> budget = TokenBudget(5)
    >>> budget.try_add("sixteen letters!"), budget.try_add("too long")
    (True, False)
    >>> budget.try_add("fits"), budget.remaining_tokens
    (True, 0)

    Attributes:
        limit: Tokens in all.
        count_tokens: Returns the tokens of a text, exactly or by estimate.
        spent_tokens: Tokens spent so far.
    """

    limit: int
    count_tokens: Callable[[str], int] = estimate_tokens
    spent_tokens: int = 0

    @property
    def remaining_tokens(self) -> int:
        """Tokens that may still be spent."""
        return self.limit - self.spent_tokens

    def try_add(self, text: str) -> bool:
        """Spend the tokens of a text; return False and spend nothing if too many."""
        return self.try_spend(self.count_tokens(text))

    def try_spend(self, tokens: int) -> bool:
        """Spend this many tokens; return False and spend nothing if too many."""
        if tokens > self.remaining_tokens:
            return False
        self.spent_tokens += tokens
        return True
