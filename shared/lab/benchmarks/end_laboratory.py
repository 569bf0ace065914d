"""END shown whole, in the laboratory: compute saved and answers kept, beside cheaper ways to less text.

NoisyRetrieval in prose that the laboratory's reader never saw, standard size. END's probe is fitted here on the
reader's states at an early layer. Cosine (MiniLM), BM25 and the first chunks keep as many chunks of each question
as END does. Compute is what goes through the reader's layers, in passes of all of them, as a share of reading
everything once; END's is cold, with each chunk read to the probe's layer for this question alone, and exact, with
the kept chunks read again from the start. What MiniLM reads is not the reader's and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import Benchmark, reader_arguments

from denoise_core import Passage
from denoise_core.embedded import embedding_scorer
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit import fit_probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.evaluate.metrics import recall_at
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.running.flow import run
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_lab.experiments.end import Loaded, haystack, load
from denoise_lab.experiments.passwords import SEED, Outcome
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval
from denoise_lab.probe_data import CHARACTERS, noisy_questions
from denoise_lab.protocols.noisy import SHARE, Known, answered, case_of, said_of

LAYER = 2  # of the reader's 6
QUESTIONS = 20  # of a level
TO_FIT = 60


class First:
    """The order that the chunks came in."""

    def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return -np.arange(len(texts), dtype=np.float32)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options, folder = reader_arguments(__doc__ or "", argv)
    bench = Benchmark("end_laboratory", options)
    loaded = load(bench, folder)
    prose, _ = haystack(bench)
    quick = options.quick
    characters = 60 if quick else CHARACTERS
    reading = loaded.reading()
    layer = min(LAYER, reading.layers)

    def drawn(level: int, n: int, seed: int, *, test: bool) -> list[Question]:
        kind = NoisyRetrieval(level, False, characters=characters)
        return noisy_questions(kind, prose, n, seed=seed, test=test)

    few = 4 if quick else TO_FIT // len(LEVELS)
    to_fit = [q for level in LEVELS for q in drawn(level, few, options.seed, test=False)]
    probe = fit_probe(reading, to_fit, layers=[layer]).probe
    bench.about["probe"] = f"fitted here on {len(to_fit)} questions, layer {layer} of {reading.layers}"
    bench.about["kept"] = f"{SHARE:.0%} of the chunks"
    scorers: dict[str, Scorer] = {
        "END": ProbeScorer(reading, probe),
        "cosine": embedding_scorer(),
        "BM25": BM25Scorer(),
        "first chunks": First(),
    }
    for level in LEVELS[:1] if quick else LEVELS:
        questions = drawn(level, 2 if quick else QUESTIONS, SEED + options.seed, test=True)
        measured(bench, loaded, f"level {level}", questions, scorers, layer / reading.layers)
    return bench.finish()


def measured(
    bench: Benchmark,
    loaded: Loaded,
    lead: str,
    questions: list[Question],
    scorers: dict[str, Scorer],
    depth: float,
) -> None:
    whole = plain(loaded, questions, [q.passages for q in questions])
    _rows(bench, f"{lead}, everything", whole, whole)
    right = {}
    for name, scorer in scorers.items():
        shown: list[Sequence[Passage]] = []
        early, recall = [], []
        for q in questions:
            texts = [p.text for p in q.passages]
            scores = np.asarray(scorer.score(q.text, texts), dtype=np.float32)
            shown.append(ENDDenoiser(Known(scores), keep=SHARE).denoise(q.text, q.passages).passages)
            recall.append(recall_at(scores, q.labels, [0] * len(texts), SHARE)[0])
            prompts = loaded.reading().prompts([(q.text, t) for t in texts])[0] if name == "END" else ()
            early.append(sum(len(p.ids) for p in prompts))
        second = plain(loaded, questions, shown)
        found = [Outcome(o.said, o.read + n, o.whole + n * depth) for o, n in zip(second, early, strict=True)]
        right[name] = np.array([o.right for o in found], dtype=np.float64)
        bench.row(f"{lead}, {name}: gold kept", np.mean(recall), "share")
        _rows(bench, f"{lead}, {name}", found, whole)
        print(lead, name, right[name].mean(), flush=True)
    for other in ("cosine", "BM25", "first chunks"):
        gain = right["END"] - right[other]
        bench.mean(f"{lead}, END over {other}: right", gain)


def plain(loaded: Loaded, questions: Sequence[Question], shown: Sequence[Sequence[Passage]]) -> list[Outcome]:
    """The second pass over the passages shown: what was said, with the tokens of its prompt."""
    out = []
    for q, passages in zip(questions, shown, strict=True):
        case = case_of(q, 0)
        told, trace = run(answered(case, passages), llm=loaded.llm)
        read = trace.usage.input_tokens
        out.append(Outcome(said_of(told.text, case), read, read))
    return out


def _rows(bench: Benchmark, lead: str, found: Sequence[Outcome], whole: Sequence[Outcome]) -> None:
    hits = sum(o.right for o in found)
    bench.share(f"{lead}: right", hits, len(found))
    cost = [o.whole / w.whole for o, w in zip(found, whole, strict=True)]
    bench.row(f"{lead}: compute, of reading everything", np.mean(cost), "share")


if __name__ == "__main__":
    main()
