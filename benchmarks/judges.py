"""What the judge that ships passes, stops and leaves open, on real answers and on claims labelled by people.

Answers: to questions that nothing was trained or calibrated on, a right one and one as noise makes it, a fact of
the same type from a distractor passage (XQuAD: another span of the right passage); RAMDocs' and HaluEval's own
wrong answers. Claims: the last part of the sets that train the judge, the other halves of those that only measure.
The demo's answers are the forty pairs that ship. The area under the curve of words alone stands with the judge's.
"""

from __future__ import annotations

import hashlib
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from harness import Benchmark, Options, arguments, read

from denoise_core.embedded import judge
from denoise_core.embedded.reader.claims import Told
from denoise_core.embedded.reader.judge import POINTS, Read
from denoise_core.embedded.reader.windows import tokens, windows
from denoise_core.embedded.sample import prepared_answers
from denoise_core.types import Passage
from denoise_lab.span_reader import calibrate
from denoise_lab.span_reader.claims import MEASURING, TRAINING, grounding, sample_of
from denoise_lab.span_reader.measure import auc
from denoise_lab.span_reader.split import CALIBRATED, SHARE
from denoise_lab.split import place

MOST = 40  # answers of a set, of each label
CLAIMS = 150  # claims of a set, of each label
NAMES = {
    "nq_gold_distractors20": "NQ",
    "hotpotqa_distractor": "HotpotQA",
    "musique": "MuSiQue",
    "xquad_en": "XQuAD",
}


@dataclass(frozen=True)
class Example:
    """A claim, the answer to ``question`` if there is one, with its evidence, and whether it is right."""

    question: str
    passages: tuple[Passage, ...]
    claim: str
    right: bool


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("judges", options)
    rng = np.random.default_rng(options.seed)
    for name, examples in sets(options):
        print(name, len(examples), flush=True)
        _measure(bench, name, examples, rng)
    return bench.finish()


def sets(options: Options) -> Iterator[tuple[str, list[Example]]]:
    """The labelled answers and claims, set by set."""
    yield "demo", _demo()[: 6 if options.quick else None]
    if options.quick:
        return
    read(options.data, "nq_gold_distractors20")
    folder = options.data or Path()
    for name, wrong in calibrate.SETS.items():
        found = []
        asked = calibrate.questions(folder, name, "figures")
        for q in sorted(asked, key=lambda q: hashlib.sha256(q.id.encode()).hexdigest()):
            if other := wrong(q, random.Random(q.id)):
                found += [
                    Example(q.text, q.passages, q.answers[0], True),
                    Example(q.text, q.passages, other, False),
                ]
        yield NAMES[name], found[: 2 * MOST]
    yield "RAMDocs", list(_ramdocs(options))[: 2 * MOST]
    yield "HaluEval", list(_halueval(options))[: 2 * MOST]
    for name in (*TRAINING, *MEASURING):
        pairs = grounding(folder, name)
        if name in MEASURING:
            own = sorted((p for p in pairs if place(f"claims:{p.group}") >= 0.5), key=lambda p: p.group + p.claim)
        else:
            own = sample_of(pairs, "figures", len(pairs))
        for_each = [p for ok in (True, False) for p in [x for x in own if x.supported == ok][:CLAIMS]]
        yield name, [Example(p.question, p.passages, p.claim, p.supported) for p in for_each]


def _measure(bench: Benchmark, name: str, examples: list[Example], rng: np.random.Generator) -> None:
    right = np.array([e.right for e in examples])
    asked = judge()
    read_as: list[Read] = []
    for _, group in groupby(examples, key=lambda e: (e.question, id(e.passages))):
        same = list(group)  # read together, so that each window is read once
        read_as += asked.read(same[0].question, [e.claim for e in same], same[0].passages)
    verdicts = {point: [judge(point).decide(r) for r in read_as] for point in POINTS}
    scores = np.array([asked.probability(r) for r in read_as])
    words = np.array([_words(e) for e in examples])
    is_answers = name in (*NAMES.values(), "demo")
    is_claims = name in (*TRAINING, *MEASURING)
    bench.row(f"{name}: answers", len(examples), "count")
    of_words = auc(words[right].tolist(), words[~right].tolist())
    least = (0.85 if name == "MuSiQue" else 0.9) if is_answers else of_words if is_claims else None
    value = auc(scores[right].tolist(), scores[~right].tolist())
    bench.row(f"{name}: shipped judge", value, "AUC", at_least=least, interval=_interval(scores, right, rng))
    bench.row(f"{name}: words alone", of_words, "AUC", interval=_interval(words, right, rng))
    for point, said in verdicts.items():
        passed = np.array([s is True for s in said])
        aimed = point == "even"
        rows = {
            "right passed": (
                passed[right].mean(),
                {"at_least": 0.85} if aimed and is_answers else {},
            ),
            "wrong passed": (passed[~right].mean(), {"at_most": 0.25 if is_claims else 0.2} if aimed else {}),
            "unknown": (statistics.fmean(s is None for s in said), {}),
        }
        for what, (share, target) in rows.items():
            bench.row(f"{name}: {point}, {what}", share, "share", **target)


def _words(example: Example) -> float:
    """Words alone, as a score: the share of the claim's stems and numbers that the best window has. `check`
    without a judge has no such score, since it never says "supported"."""
    said = Told.of(example.claim).stems
    cut = [(p.text, w) for p in example.passages for w in windows(p, tokens())]
    return max((len(said & Told.of(t[w.start : w.end]).stems) / max(1, len(said)) for t, w in cut), default=0.0)


def _demo() -> list[Example]:
    return [
        Example(p.question.text, p.question.passages, text, ok)
        for p in prepared_answers()
        for text, ok in ((p.right, True), (p.wrong, False))
    ]


def _ramdocs(options: Options) -> Iterator[Example]:
    for row in read(options.data, "ramdocs"):
        if place(row["id"]) < SHARE["ramdocs"] + CALIBRATED or not row["wrong_answers"] or not row["answers"]:
            continue
        passages = tuple(Passage(p["text"], p["id"], header=p["title"]) for p in row["passages"])
        yield Example(row["question"], passages, row["answers"][0], True)
        yield Example(row["question"], passages, row["wrong_answers"][0], False)


def _halueval(options: Options) -> Iterator[Example]:
    for row in read(options.data, "halueval_qa"):
        if place(row["id"]) >= SHARE["halueval_qa"] + CALIBRATED:
            passages = (Passage(row["context"], "context"),)
            yield Example(row["question"], passages, row["right_answer"], True)
            yield Example(row["question"], passages, row["hallucinated_answer"], False)


def _interval(scores: np.ndarray, right: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % percentile bootstrap, 300 draws within each class."""
    drawn = []
    for _ in range(300):
        yes, no = (rng.choice(scores[right == ok], int((right == ok).sum())).tolist() for ok in (True, False))
        drawn.append(auc(yes, no))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    main()
