"""Training: clozes first, then real questions among clozes; one softmax over a question's windows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from denoise_core.embedded.reader.forward import Logits, Row, batch, row
from denoise_core.embedded.reader.span_reader import best, characters
from denoise_core.embedded.reader.windows import Tokens
from torch import Tensor
from torch.nn import functional as F

from denoise_core.local.batching import batches
from denoise_core.text.words import content_words
from denoise_lab.span_reader.data import Draws, Example, Group, Parts
from denoise_lab.span_reader.network import Network

QUESTIONS = 16  # of a step
RATE = 2e-3
FIRST_SHARE, FIRST_CLOZES, LATER_CLOZES = 0.25, 0.9, 0.5  # of the run; of its questions; of later ones
LAST_SHARE, LAST_CLOZES = 0.4, 0.25  # the end of the run, with more distractors for each question
OTHERS, LAST_OTHERS = 2, 4  # distractor windows of a real question
PRESENCE = 0.3  # weight of the loss of "this window holds an answer"
PIECES = 2560  # of one forward pass, padding included


class Steps:
    """The loss of each step: clozes first, then real questions among clozes, at last with more distractors."""

    def __init__(self, parts: Parts, tokens: Tokens, *, begin: float = 0.0) -> None:
        self.draws = Draws(parts, tokens, 0)
        self.begin = begin  # how much of the course is done already by the weights that it goes on from

    def loss(self, network: Network, rng: random.Random, done: float) -> Tensor:
        """Over `QUESTIONS` questions drawn with ``rng``."""
        at = self.begin + (1 - self.begin) * done
        self.draws.rng = self.draws.clozes.rng = rng
        last = at >= 1 - LAST_SHARE
        clozes = FIRST_CLOZES if at < FIRST_SHARE else LAST_CLOZES if last else LATER_CLOZES
        groups = [
            self.draws.cloze() if rng.random() < clozes else self.draws.real(LAST_OTHERS if last else OTHERS)
            for _ in range(QUESTIONS)
        ]
        return loss_of(network, groups)


def loss_of(network: Network, groups: Sequence[Group]) -> Tensor:
    """Cross-entropy of start and of end, each over all windows of a question, plus that of presence."""
    rows = [r for g in groups for r in g.rows]
    first = np.cumsum([0, *(len(g.rows) for g in groups)])
    starts: list[Tensor] = [torch.empty(0)] * len(rows)
    ends, holds = list(starts), list(starts)
    for numbers in batches([len(r) for r in rows], PIECES):
        start, end, presence = network(batch([rows[i] for i in numbers]))
        for place, i in enumerate(numbers):
            starts[i], ends[i], holds[i] = start[place], end[place], presence[place]
    has = torch.zeros(len(rows))
    loss = torch.zeros(())
    for number, group in enumerate(groups):
        if not group.places:
            continue
        has[first[number]] = 1.0
        for logits, which in ((starts, 0), (ends, 1)):
            joined = torch.cat([logits[i] for i in range(first[number], first[number + 1])])
            right = logits[first[number]][[p[which] for p in group.places]]
            loss = loss + (torch.logsumexp(joined, 0) - torch.logsumexp(right, 0)) / (2 * len(groups))
    return loss + PRESENCE * F.binary_cross_entropy_with_logits(torch.stack(holds), has)


def look(network: Network, parts: Parts, tokens: Tokens) -> dict[str, float]:
    """On the development part: how often the best span is right, by set and in all, the answer's window read
    with the four hardest others."""
    if not parts.development:
        return {}
    right: dict[str, list[bool]] = {}
    for e in parts.development:
        text = answer(network, e, tokens)
        right.setdefault(e.name, []).append(agrees(text, e.question.answers))
    out = {name: round(float(np.mean(v)), 3) for name, v in right.items() if len(v) > 15}
    return {"right": round(float(np.mean([x for v in right.values() for x in v])), 3), **out}


def answer(network: Network, e: Example, tokens: Tokens) -> str:
    """The best span's text for an example."""
    chosen = [e.gold[0][0], *e.hard[:4]]
    found = best(chosen, logits(network, [row(e.asked, w, tokens) for w in chosen]), tokens, 1)
    if not found:
        return ""
    window = chosen[found[0].window]
    text = {p.id: p.text for p in e.question.passages}[window.passage_id]
    start, end = characters(window, found[0].first, found[0].last)
    return text[start:end]


def logits(network: Network, rows: Sequence[Row]) -> list[Logits]:
    """What the network says of each row's window, read in batches of like length."""
    out: dict[int, Logits] = {}
    with torch.no_grad():
        for numbers in batches([len(r) for r in rows], PIECES):
            start, end, holds = (t.float().numpy() for t in network(batch([rows[i] for i in numbers])))
            for n, i in enumerate(numbers):
                inside = slice(rows[i].start, rows[i].end)
                out[i] = Logits(start[n, inside], end[n, inside], float(holds[n]))
    return [out[i] for i in range(len(rows))]


class Bound:
    """The network as a reader takes it, for figures: on processors that multiply bfloat16 it is the faster one."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        return logits(self._network, rows)


def agrees(text: str, answers: Sequence[str]) -> bool:
    """Whether half of the content words of the text and of an answer together are the same (F1 of .5)."""
    said = set(content_words(text))
    for a in answers:
        wanted = set(content_words(a))
        if said and wanted and 2 * len(said & wanted) >= 0.5 * (len(said) + len(wanted)):
            return True
    return False
