"""Answers in one pass under study: how far they are from the exact reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from denoise_core.end.answering import OnePassAnswers, Read


@dataclass(frozen=True, slots=True)
class Apart:
    """One pass against the exact reading of the same prompt: the first token's distributions.

    ``divergence`` is the Kullback-Leibler divergence of the one-pass distribution from the exact one, in nats;
    ``same`` whether both have the same most likely token; ``tokens`` is the prompt's length.
    """

    divergence: float
    same: bool
    tokens: int


def apart(answers: OnePassAnswers, read: Read) -> Apart:
    """How far what ``answers`` has read is from the exact reading of the same tokens."""
    model: Any = answers.llm.model
    with torch.inference_mode():
        ids = torch.tensor([read.ids], device=model.device)
        exact = torch.log_softmax(model(input_ids=ids).logits[0, -1].float(), -1)
        at = torch.tensor([[len(read.ids) - 1]], device=model.device)
        out = model(input_ids=ids[:, -1:], position_ids=at, past_key_values=read.page.past())
        mine = torch.log_softmax(out.logits[0, -1].float(), -1)
        divergence = float((exact.exp() * (exact - mine)).sum())
    return Apart(max(0.0, divergence), int(exact.argmax()) == int(mine.argmax()), len(read.ids))
