"""Drafts from outside: a chain, an agent, an engine or a text that stands already, driven by the same loop.

A framework's adapter supplies a `Drafter`; the loop judges, repairs and asks again. `drafter` is the interface::

    loop = Augmenter(judge=..., limits=..., budget=..., when=...)  # neither model nor retriever of its own
    answer = loop.answer(question, history, drafter=MyChain(...), evidence=passages_at_hand)
    answer.best.draft  # which of the drafter's drafts was sent; answer.best.origin is what that draft carried
    stream_verified(loop, question, history, drafter=...)
"""

from denoise_core.augmenter.drafting.drafter import (
    Drafter,
    DraftReply,
    DraftRequest,
    FixedText,
    RetrievedEvidence,
    StreamingDrafter,
)

__all__ = [
    "DraftRequest",
    "DraftReply",
    "Drafter",
    "RetrievedEvidence",
    "StreamingDrafter",
    "FixedText",
]
