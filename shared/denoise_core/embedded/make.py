"""Make what ships in ``data/``: the probe, the stack and the sample, from real questions.

    python -m denoise_core.embedded.make --data FOLDER [--states FOLDER]

``FOLDER`` holds ``nq_gold_distractors20.jsonl.gz``. Questions are parted by a hash of their id (`for_fitting`):
layer, probe and stack are fitted on one part; the stack's figures in the card are of the other, and the sample
is taken from it. With ``--states`` the readings are kept and a second run goes on where a killed one stopped.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.weights import HUB_NAME, minilm
from denoise_core.end.fit import fit_probe
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.evaluate.datasets import read_questions
from denoise_core.evaluate.metrics import bootstrap, recall_at
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import Stack, collect, fit_stack

HERE = Path(__file__).parent / "data"
NQ = "nq_gold_distractors20"
NAMES = ("probe", *SentenceEncoder.names, "bm25")
FITTING_SHARE = 0.6
SAMPLE = 40


def for_fitting(question_id: str) -> bool:
    """Whether a question is in the part that probe and stack are fitted on; a hash decides, not an order."""
    return place(question_id) < FITTING_SHARE


def place(question_id: str) -> float:
    """A number in [0, 1) that is always the same for an id."""
    return int(hashlib.sha256(f"rag-denoise:{question_id}".encode()).hexdigest()[:12], 16) / 16**12


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {NQ}.jsonl.gz")
    parser.add_argument("--states", type=Path, help="folder for readings, to continue a run that was stopped")
    parser.add_argument("--limit", type=int, help="at most so many questions of each part, for a trial")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write probe, stack and sample to")
    given = parser.parse_args(argv)
    questions = sorted(read_questions(given.data / f"{NQ}.jsonl.gz").questions, key=lambda q: place(q.id))
    fitting = [q for q in questions if for_fitting(q.id)][: given.limit]
    held_out = [q for q in questions if not for_fitting(q.id)][: given.limit]
    given.out.mkdir(parents=True, exist_ok=True)
    write_sample(held_out[:SAMPLE], given.out / "nq_sample.jsonl.gz")
    probe, stack, card = fit(fitting, held_out, given.states)
    named = replace(probe.reading, model=replace(probe.reading.model, name=HUB_NAME))  # not where it lay here
    finished = Probe(probe.weight, probe.bias, named, probe.threshold, {**probe.card, **card})
    finished.save(given.out / "probe")
    write_whole(given.out / "stack.json", json.dumps(stack.to_dict(), indent=1) + "\n")


def fit(
    fitting: Sequence[Question], held_out: Sequence[Question], states: Path | None
) -> tuple[Probe, Stack, dict[str, Any]]:
    """The probe, the stack over its out-of-fold logits and the other signals, and held-out figures."""
    from rich.progress import Progress

    encoder = SentenceEncoder(minilm())
    reader = HiddenReader(encoder.model, tokenizer=encoder.tokenizer)
    with Progress() as progress:
        reading = progress.add_task("reading for the probe", total=len(fitting))
        training = fit_probe(
            reader,
            fitting,
            folder=states,
            card={"licence": "mit", "source": source(len(fitting), len(held_out))},
            progress=lambda done, _: progress.update(reading, completed=done),
        )
        probe = training.probe
        chosen = next(f for f in training.layers if f.layer == probe.reading.layer)
        apart = progress.add_task("reading for the stack", total=len(fitting) + len(held_out))
        others = [encoder, BM25Scorer()]

        def signals(questions: Sequence[Question], parts: Sequence[Any]) -> NDArray[np.float32]:
            rows = []
            for q in questions:
                rows.append(collect(parts, q.text, [p.text for p in q.passages]))
                progress.advance(apart)
            return np.concatenate(rows)

        seen = np.column_stack([chosen.line.held_out, signals(fitting, others)])
        stack = fit_stack(NAMES, seen, labels(fitting), groups(fitting))
        unseen = signals(held_out, [ProbeScorer(reader, probe), *others])
    card = {
        "stack": dict(zip(NAMES, stack.weight, strict=True)),
        "held-out questions": table(unseen, stack, held_out),
    }
    return probe, stack, card


def source(fitted: int, held_out: int) -> dict[str, Any]:
    return {
        "questions": "Natural Questions, with Wikipedia passages; see ATTRIBUTION.md beside this folder",
        "encoder": HUB_NAME,
        "parting": f"sha256 of 'rag-denoise:' + question id, below {FITTING_SHARE} for fitting",
        "fitted on": fitted,
        "held out": held_out,
    }


def table(signals: NDArray[np.float32], stack: Stack, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Gold kept by each signal and by the stack, with 95 % bootstrap intervals over questions."""
    columns = {name: signals[:, i] for i, name in enumerate(NAMES)} | {"stack": stack.combine(signals)}
    out = []
    for name, scores in columns.items():
        row: dict[str, Any] = {"scorer": name, "questions": len(questions)}
        for share in (0.3, 0.1):
            kept = recall_at(scores, labels(questions), groups(questions), share)
            low, high = bootstrap(kept)
            row |= {f"kept at {share:.0%}": float(kept.mean()), f"95 % at {share:.0%}": f"{low:.3f} to {high:.3f}"}
        out.append(row)
    return out


def labels(questions: Sequence[Question]) -> NDArray[np.bool_]:
    return np.array([label for q in questions for label in q.labels])


def groups(questions: Sequence[Question]) -> list[int]:
    return [i for i, q in enumerate(questions) for _ in q.passages]


def write_sample(questions: Sequence[Question], path: Path) -> None:
    """The questions as JSON lines, in the shape `evaluate.datasets` reads."""
    lines = []
    for q in questions:
        passages = [
            {"id": p.id, "title": p.metadata.get("title", ""), "text": p.text, "is_gold": is_gold}
            for p, is_gold in zip(q.passages, q.labels, strict=True)
        ]
        record = {"id": q.id, "question": q.text, "answers": q.answers, "passages": passages}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()
