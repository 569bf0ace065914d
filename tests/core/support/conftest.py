"""Tiny random models, as the loop's tests have them."""

from tiny_augmenter import (  # noqa: F401
    tiny_chat,
    tiny_nli,
    tiny_scorer,
    tiny_tokens,
    tiny_unnamed,
)
