"""END on a real language model: layers and poolings on Natural Questions, and what scoring costs.

Probes are fitted on questions of the fitting part and measured on others. With ``--model`` another folder or name
than SmolLM2's. The quick form reads an encoder instead, which ships.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from harness import Benchmark, Options, arguments

from denoise_core.embedded.fitted import torch_minilm
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit.probe import (
    RECALL,
    LayerFit,
    ProbeFit,
    fit_probe,
    question_auc,
    swept_poolings,
)
from denoise_core.end.fit.recall import recall_at
from denoise_core.end.fit.states import HiddenStates, capture_states
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.question import Question
from denoise_lab.experiments.real_sets import NQ, part, quick_questions

LAYERS = (4, 6, 8, 10, 12, 14)
FITTED_ON, MEASURED_ON = 48, 60  # questions
EARLY = 10  # the highest layer that the aims are about
KEPT = 0.3
CONTEXT_TOKENS = (2000, 4000)
REPEATS = 3
STATES = Path(tempfile.gettempdir()) / "rag-denoise-states"
Run = Callable[[], object]


def main(argv: Sequence[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--model", default="smollm2")
    given, rest = parser.parse_known_args(argv)
    options = arguments("END on a real language model", rest)
    bench = Benchmark("end_model", options)
    cache = PrefixCache(0)  # every reading is cold
    if options.quick:
        model, tokenizer = torch_minilm()
        reader = HiddenReader(model, tokenizer=tokenizer, prefix=cache)
        fitting, measured = quick_questions()[:4], quick_questions()[4:]
        layers: tuple[int, ...] = (2, 3)
    else:
        reader = HiddenReader(given.model, prefix=cache)
        fitting = part(options, NQ, fitting=True, limit=FITTED_ON)
        measured = part(options, NQ, fitting=False, limit=MEASURED_ON)
        layers = LAYERS
    bench.about = {
        "model": Path(given.model).name,
        "questions": f"{len(fitting)} fitted on, {len(measured)} measured",
    }
    start_time = time.process_time()
    fitted = fit_probe(
        reader, fitting, layers=layers, fraction=KEPT, folder=_states(options)
    )
    seconds = time.process_time() - start_time
    bench.row("fit, CPU time (states that were kept are not read again)", seconds, "s")
    _sweep_rows(bench, reader, fitted, measured, layers)
    if not options.quick:
        _cost_rows(bench, reader, fitted, measured)
        _head_rows(bench, given.model)
    return bench.finish()


def _states(options: Options) -> Path | None:
    return None if options.quick else STATES


def _sweep_rows(
    bench: Benchmark,
    reader: HiddenReader,
    fitted: ProbeFit,
    measured: Sequence[Question],
    layers: Sequence[int],
) -> None:
    widest = reader.with_pooling(swept_poolings(reader)[-1])
    states = capture_states(
        widest, measured, layers=layers, folder=_states(bench.options)
    )
    recalls: dict[tuple[int, str], float] = {}
    areas: dict[tuple[int, str], float] = {}
    for layer_fit in fitted.layers:
        key = (layer_fit.layer, layer_fit.pooling)
        scores = _scores(layer_fit, states.with_pooling(layer_fit.pooling))
        areas[key] = question_auc(scores, states.labels, states.question_index)
        kept = recall_at(scores, states.labels, states.question_index, KEPT)
        recalls[key] = float(kept.mean())
        where = f"layer {key[0]}, {key[1]}"
        bench.row(f"AUC, {where}", areas[key], "AUC")
        bench.mean(f"gold in the best 30 %, {where}", kept)
    chosen = fitted.chosen
    chosen_key = (chosen.layer, chosen.pooling)
    bench.row("layer chosen", chosen.layer, f"layer, {chosen.pooling}")
    bench.row(
        "gold in the best 30 % there",
        recalls[chosen_key],
        "share",
        at_least=None if bench.options.quick else RECALL,
    )
    pooled = [
        area for key, area in areas.items() if key[0] <= EARLY and key[1] != "last"
    ]
    if not bench.options.quick:
        best = f"best AUC with the question's tokens pooled, layer {EARLY} or less"
        bench.row(best, max(pooled), "AUC", at_least=0.93)


def _scores(layer_fit: LayerFit, states: HiddenStates) -> np.ndarray:
    rows = np.asarray(states.by_layer[layer_fit.layer], dtype=np.float32)
    return rows @ layer_fit.line.weight + np.float32(layer_fit.line.bias)


def _cost_rows(
    bench: Benchmark,
    reader: HiddenReader,
    fitted: ProbeFit,
    questions: Sequence[Question],
) -> None:
    """Scoring, then reading what is kept, next to reading everything; cold, medians of pairs."""
    scorer = ProbeScorer(reader, fitted.probe)
    denoiser = ENDDenoiser(scorer, keep=KEPT)
    for tokens, most in zip(CONTEXT_TOKENS, (0.6, 0.5), strict=True):
        question = _context(reader, questions, tokens)
        ratios = []
        for _ in range(REPEATS):
            whole = _cpu_seconds(lambda q=question: _read_whole(reader, q))

            def denoise_and_read(question: Question = question) -> None:
                kept = denoiser.denoise(question.text, question.passages).passages
                _read_whole(reader, Question(question.text, tuple(kept), frozenset()))

            ratios.append(_cpu_seconds(denoise_and_read) / whole)
        measure = f"END / full pass, cold, {tokens} tokens, layer {fitted.chosen.layer}"
        bench.row(measure, statistics.median(ratios), "of CPU time", at_most=most)
    texts = [p.text for p in question.passages]
    together = scorer.score(question.text, texts)
    alone = [float(scorer.score(question.text, [text])[0]) for text in texts[:5]]
    largest = float(np.abs(together[:5] - np.array(alone)).max())
    scale = float(np.abs(together).max())
    moved = "score moved by neighbours, of the largest score"
    bench.row(moved, largest / scale, "share", at_most=1e-5)


def _context(
    reader: HiddenReader, questions: Sequence[Question], tokens: int
) -> Question:
    """A question with as many passages, also of others, as have so many tokens."""
    passages = []
    count = 0
    for question in questions:
        for passage in question.passages:
            if count < tokens:
                count += len(reader.layout.encode([passage.text])[0])
                name = f"{question.id}/{passage.id}"
                passages.append(type(passage)(passage.text, name))
    return Question(questions[0].text, tuple(passages), frozenset())


@torch.inference_mode()
def _read_whole(reader: HiddenReader, question: Question) -> None:
    text = "\n\n".join(passage.text for passage in question.passages)
    text_ids, question_ids = reader.layout.encode([text, question.text])
    prompt = reader.layout.assemble(text_ids, question_ids)
    decoder = reader.backbone.partial_forward.decoder
    decoder(input_ids=torch.tensor([prompt.ids]), use_cache=False)


def _cpu_seconds(run: Run) -> float:
    start_time = time.process_time()
    run()
    return time.process_time() - start_time


def _head_rows(bench: Benchmark, model: str) -> None:
    """END by attention heads, where that benchmark is there."""
    if importlib.util.find_spec("_end_heads") is None:
        return
    heads = importlib.import_module("_end_heads")
    for measure, values, unit in heads.head_rows(
        bench.options.data, model, MEASURED_ON
    ):
        if np.ndim(values):
            bench.mean(measure, values, unit)
        else:
            bench.row(measure, float(values), unit)


if __name__ == "__main__":
    main()
