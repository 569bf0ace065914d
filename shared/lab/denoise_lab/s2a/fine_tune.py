"""A copy of a model trained on replies: AdamW, the replies' tokens only."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from denoise_core.types import Message

RATE, BATCH, PASSES, WARM_UP = 1e-4, 16, 2, 10


def fine_tuned(model: Any, tokenizer: Any, chats: Sequence[Sequence[Message]], seed: int) -> Any:
    """A copy of the model, trained on the replies; AdamW, the rate rises for `WARM_UP` steps and falls to 0."""
    import torch

    from denoise_lab.training.rows import encoded

    learner = copy.deepcopy(model).float().train()
    rows = [encoded(tokenizer, chat) for chat in chats]
    rng = random.Random(seed)
    order = [i for _ in range(PASSES) for i in rng.sample(range(len(rows)), len(rows))]
    batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    optimizer = torch.optim.AdamW(learner.parameters(), lr=RATE, weight_decay=0.0)
    for step, batch in enumerate(batches):
        length = max(len(rows[i][0]) for i in batch)
        ids = torch.full((len(batch), length), tokenizer.pad_token_id)
        weights = torch.zeros((len(batch), length))
        for row, i in enumerate(batch):
            ids[row, : len(rows[i][0])] = torch.tensor(rows[i][0])
            weights[row, : len(rows[i][1])] = torch.tensor(rows[i][1])
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP, (len(batches) - step) / len(batches))
        # What follows a row's end is never looked at by what stands before it: no mask is needed.
        logits = learner(input_ids=ids).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (losses * weights[:, 1:]).sum() / weights[:, 1:].sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
    return learner.eval()
