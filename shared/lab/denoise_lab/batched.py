"""Several conversations in one generation of a `LocalLLM`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from denoise_core.local.batching import rope_limit
from denoise_core.local.generation.llm import LocalLLM
from denoise_core.types import Message, Reply, Usage


def complete_batch(llm: LocalLLM, conversations: Sequence[Sequence[Message]]) -> list[Reply]:
    """A reply to each of several conversations, from one generation; shorter ones are padded on the left.

    Greedy replies are those of ``llm.complete``, up to the arithmetic of another batch shape.
    """
    if not conversations:
        return []
    asked = [llm._inputs(messages)["input_ids"][0].tolist() for messages in conversations]
    longest = max(map(len, asked))
    limit = rope_limit(llm.model.config)
    if limit is not None and longest > limit:  # a longer neighbour would change the frequencies
        return [llm.complete(messages) for messages in conversations]
    pad = llm._pad()
    ids = torch.tensor([[pad] * (longest - len(a)) + a for a in asked], device=llm.model.device)
    mask = torch.tensor([[0] * (longest - len(a)) + [1] * len(a) for a in asked], device=llm.model.device)
    with llm._lock:
        made = llm._generate(input_ids=ids, attention_mask=mask)[:, longest:].tolist()
    replies = []
    for prompt, row in zip(asked, made, strict=True):
        length = next((n + 1 for n, token in enumerate(row) if token in llm._ends()), len(row))
        while llm.stop and length > 1 and row[length - 1] == pad:  # what follows a text in ``stop``
            length -= 1
        replies.append(Reply(llm._text(row[:length]), Usage(len(prompt), length)))
    return replies
