"""Make what ships in ``data/``: the probe, the stack and the sample, from real questions.

    python -m denoise_core.embedded.make --data FOLDER [--sets nq_gold_distractors20,...] [--cache FOLDER]

``FOLDER`` holds the sets as JSON lines (``NAME.jsonl.gz``). Questions are parted by a hash of their id
(`for_fitting`); figures in the card are of the other part, and the sample is taken from it. With ``--cache``
readings are kept and a second run continues where a killed one stopped.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.weights import minilm
from denoise_core.end.fit import fit_line, outranking
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.evaluate.datasets import read_questions
from denoise_core.evaluate.metrics import recall_at
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import Stack, fit_stack

Floats = NDArray[np.float32]

HERE = Path(__file__).parent / "data"
LAYERS = (1, 2, 3, 4, 5, 6)
FITTING_SHARE = 0.6
SAMPLE = 40
NQ = "nq_gold_distractors20"


def for_fitting(question_id: str) -> bool:
    """Whether a question is in the part that probe and stack are fitted on; a hash decides, not an order."""
    return _place(question_id) < FITTING_SHARE


def _place(question_id: str) -> float:
    return int(hashlib.sha256(f"rag-denoise:{question_id}".encode()).hexdigest()[:12], 16) / 16**12


@dataclass(frozen=True, slots=True)
class Readings:
    """All that is fitted on, one row a passage: states by layer, signals, labels, question ids."""

    states: Mapping[int, NDArray[np.float16]]
    signals: Floats  # (n, 3): cosine, maxsim, bm25
    gold: NDArray[np.bool_]
    question: NDArray[np.str_]

    def part(self, fitting: bool) -> NDArray[np.intp]:
        return np.flatnonzero([for_fitting(q) == fitting for q in self.question])


def take_readings(
    questions: Sequence[Question], reader: HiddenReader, encoder: SentenceEncoder | None, limit: int | None
) -> Readings:
    """Read every question's passages; without an encoder the signals beside the probe are left at zero."""
    from rich.progress import track

    order = sorted((q for q in questions if q.gold), key=lambda q: _place(q.id))
    chosen = [q for part in (True, False) for q in [q for q in order if for_fitting(q.id) == part][:limit]]
    states: dict[int, list[Any]] = {layer: [] for layer in LAYERS}
    signals, gold, ids = [], [], []
    for q in track(chosen, description="reading"):
        texts = [p.text for p in q.passages]
        for layer, rows in reader.states(q.text, texts, LAYERS).items():
            states[layer].append(rows.astype(np.float16))
        apart = encoder.signals(q.text, texts) if encoder else np.zeros((len(texts), 2))
        signals.append(np.column_stack([apart, BM25Scorer().score(q.text, texts)]))
        gold += q.labels
        ids += [q.id] * len(texts)
    joined = {layer: np.concatenate(rows) for layer, rows in states.items()}
    return Readings(joined, np.concatenate(signals).astype(np.float32), np.array(gold), np.array(ids))


def cached(path: Path | None, make: Any) -> Readings:
    if path is not None and path.is_file():
        with np.load(path, allow_pickle=False) as kept:
            states = {layer: kept[f"layer{layer}"] for layer in LAYERS}
            return Readings(states, kept["signals"], kept["gold"], kept["question"])
    found: Readings = make()
    if path is not None:
        part = path.with_suffix(".part.npz")
        columns = {f"layer{layer}": rows for layer, rows in found.states.items()}
        np.savez(part, signals=found.signals, gold=found.gold, question=found.question, **columns)
        os.replace(part, path)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A probe's line at one layer, with logits of its fitting rows from folds that did not see them."""

    weight: Floats
    bias: float
    C: float
    held_out: Floats

    def score(self, states: NDArray[Any]) -> Floats:
        return np.asarray(states.astype(np.float32) @ self.weight + self.bias, dtype=np.float32)


def fit_lines(readings: Sequence[Readings]) -> dict[int, Line]:
    lines = {}
    for layer in LAYERS:
        rows = [r.part(True) for r in readings]
        states = np.concatenate([r.states[layer][i] for r, i in zip(readings, rows, strict=True)])
        gold = np.concatenate([r.gold[i] for r, i in zip(readings, rows, strict=True)])
        groups = np.concatenate([r.question[i] for r, i in zip(readings, rows, strict=True)])
        found = fit_line(states.astype(np.float32), gold, groups.tolist())
        lines[layer] = Line(found.weight, found.bias, found.C, found.held_out)
    return lines


def choose_layer(lines: Mapping[int, Line], readings: Sequence[Readings]) -> int:
    """The shallowest layer within one standard error of the best, by fitting questions held out of their fold."""
    gold = np.concatenate([r.gold[r.part(True)] for r in readings])
    groups = np.concatenate([r.question[r.part(True)] for r in readings])
    rows = [np.flatnonzero(groups == q) for q in dict.fromkeys(groups.tolist())]
    areas = {
        layer: np.array([outranking(line.held_out[i], gold[i], np.zeros(len(i), dtype=np.intp)) for i in rows])
        for layer, line in lines.items()
    }
    best = max(areas, key=lambda k: areas[k].mean())
    allowed = areas[best].mean() - areas[best].std() / np.sqrt(len(areas[best]))
    return min(layer for layer, a in areas.items() if a.mean() >= allowed)


def recalls(scores: Floats, readings: Readings, rows: NDArray[np.intp]) -> dict[str, float]:
    by = {share: recall_at(scores, readings.gold[rows], readings.question[rows], share) for share in (0.3, 0.1)}
    return {f"gold kept at {share:.0%}": float(values.mean()) for share, values in by.items()}


def fit_all(readings: Mapping[str, Readings]) -> tuple[int, dict[int, Line], Stack]:
    """Layer, the line at each layer, and the stack over out-of-fold probe logits and the other signals."""
    every = list(readings.values())
    lines = fit_lines(every)
    layer = choose_layer(lines, every)
    rows = [r.part(True) for r in every]
    others = np.concatenate([r.signals[i] for r, i in zip(every, rows, strict=True)])
    signals = np.column_stack([lines[layer].held_out, others])
    gold = np.concatenate([r.gold[i] for r, i in zip(every, rows, strict=True)])
    groups = np.concatenate([r.question[i] for r, i in zip(every, rows, strict=True)])
    return layer, lines, fit_stack(("probe", *encoder_names(), "bm25"), signals, gold, groups.tolist())


def encoder_names() -> tuple[str, ...]:
    return SentenceEncoder.names


def table(readings: Mapping[str, Readings], line: Line, layer: int, stack: Stack) -> list[dict[str, Any]]:
    """Held-out figures: each signal and the stack on each set."""
    out = []
    for name, r in readings.items():
        rows = r.part(False)
        probe = line.score(r.states[layer][rows])
        columns = {
            "BM25": r.signals[rows, 2],
            "cosine": r.signals[rows, 0],
            "maxsim": r.signals[rows, 1],
            "probe": probe,
            "stack": stack.combine(np.column_stack([probe, r.signals[rows]])),
        }
        n = len(set(r.question[rows].tolist()))
        out += [{"set": name, "questions": n, "scorer": k, **recalls(v, r, rows)} for k, v in columns.items()]
    return out


def curve(readings: Mapping[str, Readings], lines: Mapping[int, Line]) -> list[dict[str, Any]]:
    """Held-out figures of the probe alone, by layer."""
    return [
        {"set": name, "layer": layer, "C": line.C, **recalls(line.score(r.states[layer][rows]), r, rows)}
        for name, r in readings.items()
        for rows in [r.part(False)]
        for layer, line in lines.items()
    ]


def randomised(reader: HiddenReader) -> HiddenReader:
    """The same model with its blocks' weights drawn anew and its embeddings kept: the paper's control."""
    import copy

    import torch

    model = copy.deepcopy(reader.backbone.model)
    torch.manual_seed(0)
    for block in model.encoder.layer:
        for module in block.modules():
            model._init_weights(module)
    return HiddenReader(model.eval(), tokenizer=reader.backbone.tokenizer)


def write_sample(questions: Sequence[Question], path: Path) -> None:
    """The first held-out questions by the hash of their id, in the shape `evaluate.datasets` reads."""
    chosen = sorted((q for q in questions if not for_fitting(q.id)), key=lambda q: _place(q.id))[:SAMPLE]
    lines = []
    for q in chosen:
        passages = [
            {"id": p.id, "title": p.metadata.get("title", ""), "text": p.text, "is_gold": is_gold}
            for p, is_gold in zip(q.passages, q.labels, strict=True)
        ]
        record = {"id": q.id, "question": q.text, "answers": q.answers, "passages": passages}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets, NAME.jsonl.gz")
    parser.add_argument("--sets", default=NQ, help="comma-separated names of the sets to fit on")
    parser.add_argument("--also", default="", help="sets that are only measured")
    parser.add_argument("--limit", type=int, help="at most so many questions of either part of each set")
    parser.add_argument("--cache", type=Path, help="folder for readings, to continue a run that was stopped")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write probe, stack and sample to")
    given = parser.parse_args(argv)
    fitted = [s for s in given.sets.split(",") if s]
    measured = [s for s in given.also.split(",") if s]
    records = {name: read_questions(given.data / f"{name}.jsonl.gz").questions for name in fitted + measured}
    if given.cache:
        given.cache.mkdir(parents=True, exist_ok=True)

    encoder = SentenceEncoder(minilm())
    reader = HiddenReader(encoder.model, tokenizer=encoder.tokenizer)

    def readings_of(name: str, by: HiddenReader, apart: SentenceEncoder | None, mark: str = "") -> Readings:
        path = given.cache / f"{name}{mark}.npz" if given.cache else None
        return cached(path, lambda: take_readings(records[name], by, apart, given.limit))

    readings = {name: readings_of(name, reader, encoder) for name in records}
    layer, lines, stack = fit_all({name: readings[name] for name in fitted})
    control = {fitted[0]: readings_of(fitted[0], randomised(reader), None, ".random")}
    random_lines = fit_lines(list(control.values()))
    card = {
        "licence": "mit",
        "data": {
            "fitted on": ", ".join(fitted),
            "questions fitted on": sum(
                len(set(readings[n].question[readings[n].part(True)].tolist())) for n in fitted
            ),
            "parting": f"sha256 of 'rag-denoise:' + question id, below {FITTING_SHARE} for fitting",
        },
        "held-out questions": table(readings, lines[layer], layer, stack),
        "probe by layer, held-out questions": curve(readings, lines),
        "random-weights control: probe by layer, held-out questions": curve(control, random_lines),
        "stack": dict(zip(stack.names, stack.weight, strict=True)),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    line = lines[layer]
    Probe(line.weight, line.bias, reader.reading(layer), card=card).save(given.out / "probe")
    (given.out / "stack.json").write_text(json.dumps(stack.to_dict(), indent=1) + "\n", encoding="utf-8")
    if NQ in records:
        write_sample(records[NQ], given.out / "nq_sample.jsonl.gz")


if __name__ == "__main__":
    main()
