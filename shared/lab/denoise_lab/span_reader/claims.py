"""Claims with evidence and people's labels, to train and to measure the reader of claims with.

Sets whose licence lets them train what ships are parted by their own groups; the others only measure.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from denoise_core.embedded.reader.claims import Chosen, chosen
from denoise_core.embedded.reader.forward import Batch, batch
from denoise_core.embedded.reader.windows import Tokens, windows
from torch import Tensor
from torch.nn import functional as F

from denoise_core.local.batching import batches
from denoise_core.types import Passage
from denoise_lab.span_reader.cloze import kind_of, spans
from denoise_lab.span_reader.data import Example
from denoise_lab.span_reader.measure import auc, sentence
from denoise_lab.span_reader.network import Network
from denoise_lab.span_reader.split import for_training, read
from denoise_lab.span_reader.train import PIECES
from denoise_lab.split import place

TRAINED, CALIBRATED = 0.7, 0.8  # places of groups: trained below the first, calibrated on up to the second
TRAINING = ("summedits", "wice", "begin", "fib")
MEASURING = ("qags", "climate_fever", "healthver")  # no licence to train what ships
WEIGHT = {"summedits": 1.3, "wice": 0.8, "begin": 1.0, "fib": 1.0, "answers": 1.2, "yes or no": 0.1, "fever": 0.6}
ROWS = 16  # of a step


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim (an answer to ``question``, if there is one), its evidence, and whether people call it supported."""

    name: str
    group: str
    question: str
    claim: str
    passages: tuple[Passage, ...]
    supported: bool

    @property
    def part(self) -> str:
        at = place(f"claims:{self.group}")
        return "training" if at < TRAINED else "calibration" if at < CALIBRATED else "figures"


def grounding(data: Path, name: str) -> list[Pair]:
    """The pairs of ``grounding_NAME.jsonl.gz``."""
    out = []
    with gzip.open(data / f"grounding_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            r = json.loads(line)
            asked = r.get("question") if name == "begin" else ""
            evidence = (Passage(r["evidence"], "evidence"),)
            out.append(Pair(name, r["group"], asked or "", r["claim"], evidence, r["supported"]))
    return out


def fever(data: Path) -> Iterator[Pair]:
    """FEVER-symmetric's claims."""
    with gzip.open(data / "fever_symmetric.jsonl.gz", "rt", encoding="utf-8") as file:
        for r in map(json.loads, file):
            yield Pair(
                "fever", r["evidence"], "", r["claim"], (Passage(r["evidence"], "e"),), r["label"] == "SUPPORTS"
            )


def yes_no(data: Path) -> Iterator[Pair]:
    """Questions of the training part that ask for a yes or a no, with both."""
    for name in ("hotpotqa_distractor", "2wikimultihopqa"):
        for q in read(data, name):
            right = q.answers[0].strip().rstrip(".").casefold() if q.answers else ""
            if right in ("yes", "no") and for_training(name, q):
                for said in ("Yes", "No"):
                    yield Pair("yes or no", q.id, q.text, said, q.passages, said.casefold() == right)


def answers(examples: Iterable[Example], seed: int = 0) -> Iterator[Pair]:
    """Right and wrong answers to the reader's own training questions, half of them said as sentences, and right
    ones without the passages that hold them."""
    for e in examples:
        q = e.question
        rng = random.Random(f"{seed}:{q.id}")
        gold = [p for p in q.passages if p.id in q.gold]
        rest = [p for p in q.passages if p.id not in q.gold]
        given = tuple(rng.sample(rest, min(len(rest), 3)) + gold)
        right = q.answers[0]
        said = {w.casefold() for a in q.answers for w in a.split()}
        found = [p.text[a:b] for p in given for a, b in spans(p.text, kind_of(right))]
        wrong = [s for s in found if not said & {w.casefold() for w in s.split()} and s not in q.text]
        cases = [(right, given, True)]
        if wrong:
            cases.append((rng.choice(wrong), given, False))
        if rest and rng.random() < 0.3:
            cases.append((right, tuple(rest[:4]), False))
        for answer, passages, ok in cases:
            text = answer if rng.random() < 0.5 else sentence(q.text, answer, rng)
            yield Pair("answers", q.id, q.text, text, passages, ok)


def rows(pairs: Sequence[Pair], tokens: Tokens) -> list[Chosen]:
    """What is read of each pair."""
    return [
        chosen(p.question, p.claim, [w for x in p.passages for w in windows(x, tokens)], tokens) for p in pairs
    ]


class Claims:
    """Draws steps of balanced rows: as many supported as not, sets by `WEIGHT`."""

    def __init__(self, pairs: Sequence[Pair], tokens: Tokens) -> None:
        self.pairs = pairs
        self.rows = [c.row for c in rows(pairs, tokens)]
        self.by: dict[tuple[str, bool], list[int]] = {}
        for i, p in enumerate(pairs):
            self.by.setdefault((p.name, p.supported), []).append(i)
        self.names = sorted({p.name for p in pairs})

    def loss(self, network: Network, rng: random.Random) -> Tensor:
        """Cross-entropy of "supported" over the rows of a step."""
        weights = [WEIGHT[n] for n in self.names]
        drawn = [rng.choice(self.by[rng.choices(self.names, weights)[0], n % 2 == 0]) for n in range(ROWS)]
        chosen_rows = [self.rows[i] for i in drawn]
        parts = []
        for numbers in batches([len(r) for r in chosen_rows], PIECES):
            said = supported(network, batch([chosen_rows[n] for n in numbers]))
            wanted = torch.tensor([float(self.pairs[drawn[n]].supported) for n in numbers])
            parts.append(F.binary_cross_entropy_with_logits(said, wanted, reduction="sum"))
        return torch.stack(parts).sum() / ROWS


def training(data: Path, examples: Sequence[Example]) -> list[Pair]:
    """All that the claims' network is trained on."""
    pairs = [*(p for name in TRAINING for p in grounding(data, name)), *fever(data)]
    return [*(p for p in pairs if p.part == "training"), *answers(examples), *yes_no(data)]


def sample_of(pairs: Sequence[Pair], part: str, limit: int) -> list[Pair]:
    """At most ``limit`` pairs of a part, in an order that a hash gives."""
    own = [p for p in pairs if p.part == part]
    return sorted(own, key=lambda p: place(f"drawn:{p.group}:{p.claim}"))[:limit]


def fresh(network: Network) -> None:
    """New heads over layers that were trained to find answers."""
    torch.manual_seed(0)
    for head in (network.span, network.holds):
        torch.nn.init.normal_(head.weight, std=0.05)
        torch.nn.init.zeros_(head.bias)


def supported(network: Network, given: Batch) -> Tensor:
    """`denoise_core.embedded.reader.claims.logit` of each row, in torch."""
    start, end, holds = network(given)
    inside = torch.from_numpy(given.inside)
    found: Tensor = holds + (torch.softmax(end, -1) * start.masked_fill(~inside, 0.0)).sum(-1)
    return found


def watched(data: Path, tokens: Tokens) -> Callable[[Network], dict[str, float]]:
    """What a look tells: the area under the curve on sixty claims of each set's calibration part."""
    pairs = [
        p
        for name in TRAINING
        for ok in (True, False)
        for p in sample_of([p for p in grounding(data, name) if p.supported == ok], "calibration", 30)
    ]
    read_as = rows(pairs, tokens)

    def watch(network: Network) -> dict[str, float]:
        said = list(zip(pairs, logits(network, read_as), strict=True))
        return {
            name: round(
                auc(*([x for p, x in said if p.name == name and p.supported == ok] for ok in (True, False))), 3
            )
            for name in TRAINING
        }

    return watch


def logits(network: Network, given: Sequence[Chosen]) -> list[float]:
    """The network's logit of "supported" for each row."""
    out = np.zeros(len(given))
    read = [c.row for c in given]
    with torch.no_grad():
        for numbers in batches([len(r) for r in read], PIECES):
            out[numbers] = supported(network, batch([read[i] for i in numbers])).numpy()
    return [float(x) for x in out]
