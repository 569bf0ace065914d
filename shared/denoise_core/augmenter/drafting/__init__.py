"""Drafts from outside: a chain, an agent, an engine or a fixed text, in the same loop.

A framework's adapter supplies a `Drafter`; the loop judges its drafts and asks again.
Read ``drafter`` first; ``contamination`` says what of a draft's evidence counts::

    loop = Augmenter(judge=..., limits=..., budget=..., when=...)
    answer = loop.answer(question, history, drafter=MyChain(...), evidence=passages)
    answer.best.draft  # which draft was sent; answer.best.origin is what it carried
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
    "DraftReply",
    "DraftRequest",
    "Drafter",
    "FixedText",
    "RetrievedEvidence",
    "StreamingDrafter",
]
