"""Questions and texts as prompts that fit the model's window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.local.batching import windows
from denoise_core.local.layout import BoundLayout, Prompt


def prompts_of(
    layout: BoundLayout, pairs: Sequence[tuple[str, str]], window: int | None
) -> tuple[list[Prompt], NDArray[np.intp]]:
    """The prompts of ``(question, text)`` pairs, and to which pair each belongs.

    A text that does not fit ``window`` tokens together with the question is cut into even parts, a prompt
    for each. Raises `InputError` when the question leaves no room.
    """
    texts = layout.encode([t for _, t in pairs])
    distinct = list(dict.fromkeys(q for q, _ in pairs))
    questions = dict(zip(distinct, layout.encode(distinct), strict=True))
    prompts: list[Prompt] = []
    owner: list[int] = []
    for i, ((query, _), ids) in enumerate(zip(pairs, texts, strict=True)):
        question = questions[query]
        room = len(ids) or 1 if window is None else window - layout.overhead - len(question)
        for part in windows(ids, room):
            prompts.append(layout.assemble(part, question))
            owner.append(i)
    return prompts, np.array(owner, dtype=np.intp)


def best_of_parts(scores: NDArray[np.float32], owner: NDArray[np.intp], texts: int) -> NDArray[np.float32]:
    """One score for each text: that of its best part."""
    best = np.full(texts, -np.inf, dtype=np.float32)
    np.maximum.at(best, owner, scores)
    return best
