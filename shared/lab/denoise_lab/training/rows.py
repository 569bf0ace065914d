"""Conversations as rows of token ids of one length, several to a row, each in a segment of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from denoise_core.types import Message

_LONGEST_OF = 6
_TRIES = 40  # conversations that did not fit in a row, before the batch is taken as full


@dataclass(frozen=True, slots=True)
class Rows:
    """All (rows, length): token ids, segment numbers, weight of each token as a target, first token of a reply."""

    ids: torch.Tensor
    segments: torch.Tensor
    weights: torch.Tensor
    firsts: torch.Tensor


def encoded(
    tokenizer: Any, messages: Sequence[Message], echo: float = 0.0
) -> tuple[list[int], list[float], list[int]]:
    """Ids of a conversation as the chat template writes it, their weights as targets, and where replies begin.

    A reply's tokens share a weight that grows with the root of its length, so that long copies do not drown
    the short answers. With ``echo`` above 0 the texts of later questions are learned too, with that weight: what
    they repeat of the context is foretold by looking it up there, which is the skill that finding a fact needs.
    """
    role = {r: tokenizer.convert_tokens_to_ids(f"<|{r}|>") for r in ("system", "user", "assistant")}
    texts = tokenizer([m.content for m in messages], add_special_tokens=False, split_special_tokens=True)[
        "input_ids"
    ]
    ids, weights, firsts = [tokenizer.bos_token_id], [0.0], []
    asked = 0
    for message, text in zip(messages, texts, strict=True):
        learned = message.role == "assistant"
        asked += message.role == "user"
        if learned:
            firsts.append(len(ids) + 1)
        ids += [role[message.role], *text, tokenizer.eos_token_id]
        weight = (len(text) + 1) ** -0.5 if learned else echo if asked > 1 else 0.0
        weights += [0.0, *[weight] * (len(text) + 1)]
    return ids, weights, firsts


def packed(
    tokenizer: Any, conversations: Iterator[Sequence[Message]], rows: int, length: int, echo: float = 0.0
) -> Rows:
    """Takes conversations until the rows are about full; one that is longer than a row is left out.

    A single row gets a single conversation, the longest that fits of some: it needs no mask.
    """
    made = Rows(
        torch.full((rows, length), tokenizer.pad_token_id),
        torch.zeros((rows, length), dtype=torch.int32),
        torch.zeros((rows, length)),
        torch.zeros((rows, length), dtype=torch.bool),
    )
    used, segment, misses = [0] * rows, 0, 0
    if rows == 1:
        some = [encoded(tokenizer, next(conversations), echo) for _ in range(_LONGEST_OF)]
        queue = iter(sorted((e for e in some if len(e[0]) <= length), key=lambda e: -len(e[0]))[:1])
    else:
        queue = (encoded(tokenizer, c, echo) for c in conversations)
    while misses < _TRIES and min(used) < 0.9 * length:
        if (example := next(queue, None)) is None:
            break
        ids, weights, firsts = example
        fitting = [r for r in range(rows) if used[r] + len(ids) <= length]
        if not fitting:
            misses += 1
            continue
        row = max(fitting, key=lambda r: used[r])
        at, segment = used[row], segment + 1
        made.ids[row, at : at + len(ids)] = torch.tensor(ids)
        made.weights[row, at : at + len(ids)] = torch.tensor(weights)
        made.segments[row, at : at + len(ids)] = segment
        made.firsts[row, [at + f for f in firsts]] = True
        used[row] += len(ids)
    return made
