"""Groups to train on: a question, a window that holds its answer, and windows that look alike and do not."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from denoise_core.embedded.reader.forward import Row, overlap, row
from denoise_core.embedded.reader.windows import Tokens, Window, windows

from denoise_core.question import Question
from denoise_core.types import Passage
from denoise_lab.span_reader.cloze import Clozes
from denoise_lab.span_reader.split import SHARE, Guard, for_development, for_training, read

WEIGHT = {  # how often a question of a set is drawn, against one of another
    "nq_gold_distractors20": 1.3,
    "xquad_en": 1.5,
    "hotpotqa_distractor": 1.0,
    "ramdocs": 0.7,
    "2wikimultihopqa": 0.4,
    "ottqa": 0.5,
    "noiserbench_multihop": 0.4,
    "halueval_qa": 0.8,
    "musique": 0.8,
}
WORN = 0.12  # of a question's pieces are lost, and
HIDDEN = 0.08  # of a window's are hidden, half of the time each, so that neither is learned by heart
HARD = 12  # distractor windows kept for a question
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Example:
    """A question's pieces; windows with the places of the answer in them; windows without it, hardest first."""

    name: str
    question: Question
    asked: tuple[int, ...]
    gold: tuple[tuple[Window, tuple[Place, ...]], ...]
    hard: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one question; the first holds the answer, at ``places`` (first and last piece in the row) unless
    there are none: then no row holds it."""

    rows: tuple[Row, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the folder gives: examples to train on and to choose by, held-out questions, passages for clozes."""

    training: tuple[Example, ...]
    development: tuple[Example, ...]
    held_out: dict[str, tuple[Question, ...]]
    pool: tuple[Passage, ...]
    dropped: int


def load(folder: Path, tokens: Tokens) -> Parts:
    """Read, part and guard all sets of `SHARE`. Passages of the pool name their question in ``metadata``."""
    sets = {name: read(folder, name) for name in SHARE}
    held_out = {n: tuple(q for q in qs if not for_training(n, q)) for n, qs in sets.items()}
    guard = Guard(q for qs in held_out.values() for q in qs)
    training: list[Example] = []
    development: list[Example] = []
    pool: dict[str, Passage] = {}
    dropped = 0
    for name, questions in sets.items():
        for q in questions:
            if not for_training(name, q):
                continue
            if guard.knows(q):
                dropped += 1
                continue
            usable = tuple(p for p in q.passages if p.id in q.gold or not guard.knows_text(p))
            made = example(name, q, usable, tokens)
            if for_development(q):
                development += [made] if made else []
                continue
            training += [made] if made else []
            if name not in ("ottqa", "noiserbench_multihop"):  # rows of tables, and text written by a model
                for p in usable:
                    pool.setdefault(p.text, Passage(p.text, p.id, metadata={**p.metadata, "of": f"{name}:{q.id}"}))
    return Parts(tuple(training), tuple(development), held_out, tuple(pool.values()), dropped)


def example(name: str, q: Question, passages: Iterable[Passage], tokens: Tokens) -> Example | None:
    """The question as an example, or None when no window of its gold passages holds an answer as it is written."""
    if not q.answers or q.answers[0].strip().lower() in ("yes", "no"):
        return None
    asked = tokens.pieces(q.text).ids
    wanted = [tokens.pieces(a).ids for a in q.answers]
    gold, others = [], []
    for p in passages:
        for w in windows(p, tokens):
            found = places(w, wanted)
            if not found:
                others.append(w)
            elif p.id in q.gold:
                gold.append((w, found))
    if not gold:
        return None
    score = overlap(asked, [w for w, _ in gold] + others, tokens)
    best = sorted(range(len(gold)), key=lambda i: -score[i])
    hardest = sorted(range(len(others)), key=lambda i: -score[len(gold) + i])[:HARD]
    return Example(name, q, asked, tuple(gold[i] for i in best), tuple(others[i] for i in hardest))


def places(window: Window, wanted: Sequence[Sequence[int]]) -> tuple[Place, ...]:
    """First and last piece, in the window's own count, of each occurrence of a wanted run of pieces."""
    out = []
    ids = window.ids
    for want in wanted:
        n = len(want)
        for i in range(len(ids) - n + 1 if n else 0):
            if ids[i] == want[0] and ids[i : i + n] == tuple(want):
                out.append((i, i + n - 1))
    return tuple(dict.fromkeys(out))


class Draws:
    """Draws groups, real or cloze, with two windows each or more."""

    def __init__(self, parts: Parts, tokens: Tokens, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tokens = tokens
        self.examples = parts.training
        weights = [WEIGHT[e.name] for e in parts.training]
        self.cumulated: list[float] = [float(x) for x in np.cumsum(weights)]
        self.clozes = Clozes(parts.pool, self.rng)
        self.by_question: dict[str, list[Passage]] = {}
        for p in parts.pool:
            self.by_question.setdefault(p.metadata["of"], []).append(p)

    def real(self, others: int = 2) -> Group:
        """A question of the training part: mostly its best window, and ``others`` of the hardest distractors."""
        rng = self.rng
        e = rng.choices(self.examples, cum_weights=self.cumulated)[0]
        window, found = e.gold[0] if rng.random() < 0.8 else rng.choice(e.gold[:3])
        hard = rng.sample(e.hard, min(others, len(e.hard)))
        if rng.random() < 0.5 and e.hard:
            hard = [*e.hard[:1], *(w for w in hard if w is not e.hard[0])][:others]
        taken = {n for first, last in found for n in range(first, last + 1)}
        read = [self._hidden(window, taken), *(self._hidden(w, frozenset()) for w in hard)]
        return self.group(self._worn(e.asked), read[0], found, read[1:])

    def cloze(self) -> Group:
        """A question made from the pool, with windows of the same passage or of its neighbours."""
        while True:
            made = self.clozes.draw()
            wanted = [self.tokens.pieces(made.answer).ids]
            cut = [(w, places(w, wanted)) for w in windows(made.passage, self.tokens)]
            gold = [(w, f) for w, f in cut if f]
            if not gold:
                continue
            near = [self.rng.choice(self.by_question[made.passage.metadata["of"]]) for _ in range(2)]
            others = [w for w, f in cut if not f]
            others += [w for p in near for w in windows(p, self.tokens) if not places(w, wanted)]
            asked = self.tokens.pieces(made.question).ids
            score = overlap(asked, [w for w, _ in gold] + others, self.tokens)
            best = int(np.argmax(score[: len(gold)]))
            order = sorted(range(len(others)), key=lambda i: -score[len(gold) + i])[:4]
            hard = [others[i] for i in self.rng.sample(order, min(self.rng.choice((1, 1, 2)), len(order)))]
            return self.group(asked, *gold[best], hard)

    def _worn(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Half of the time the question with some pieces lost."""
        if self.rng.random() < 0.5:
            return asked
        return tuple(i for i in asked if self.rng.random() > WORN) or asked

    def _hidden(self, window: Window, kept: Collection[int]) -> Window:
        """Half of the time the window with some pieces hidden, none of those in ``kept``."""
        if self.rng.random() < 0.5:
            return window
        mask = self.tokens.mask
        ids = (mask if n not in kept and self.rng.random() < HIDDEN else i for n, i in enumerate(window.ids))
        return replace(window, ids=tuple(ids))

    def group(self, asked: Sequence[int], window: Window, found: Sequence[Place], hard: Sequence[Window]) -> Group:
        """The rows, window with the answer first; places are moved to where the window begins in its row."""
        rows = tuple(row(asked, w, self.tokens) for w in (window, *hard))
        shift = rows[0].start
        inside = [(a + shift, b + shift) for a, b in found if b + shift < rows[0].end]
        return Group(rows, tuple(inside))
