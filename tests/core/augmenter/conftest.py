"""What the Augmenter's tests share."""

from tiny_augmenter import (  # noqa: F401
    passages,
    question,
    tiny_bart,
    tiny_chat,
    tiny_nli,
    tiny_scorer,
    tiny_tokens,
    tiny_two,
    tiny_unnamed,
)
