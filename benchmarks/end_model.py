"""END on a real language model: probes by layer and pooling, attention heads, what scoring costs, and answers.

Probes and heads are fitted on some questions of a set and measured on others of it. The rows of each step and what
was read of a model are kept in the system's temporary folder (``--folder`` keeps them elsewhere), so that a run
that was stopped continues; with ``--only NAME`` a run ends after one step, and its results have all rows known by
then. The steps are the sets, ``costs``, ``drafts`` and ``answers`` (`_model_answers`).
With ``--model`` another folder or name than SmolLM2's. The quick form sweeps a small model of random weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from _model_answers import (
    ALL,
    FIVE,
    NEW_TOKENS,
    PLAIN,
    Replies,
    answer_replies,
    draft_replies,
)
from company import UNSEEN, file_pieces, read_questions, split_files
from end_speed import QUICK_SHAPE
from harness import Benchmark, cpu_seconds, read_data_set

from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.minilm import minilm_folder
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit.heads import HeadFit, fit_heads
from denoise_core.end.fit.probe import ProbeFit, fit_probe, question_auc, swept_poolings
from denoise_core.end.fit.recall import recall_at
from denoise_core.end.fit.stack import fit_stack
from denoise_core.end.fit.states import capture_states
from denoise_core.end.heads import HeadReader
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.evaluate.datasets import parse_cases
from denoise_core.local.generation import LocalLLM
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.loading import load_tokenizer, shared_model
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import Stack
from denoise_core.types import Passage
from denoise_lab.experiments.real_sets import (
    cache_folder,
    cut_question,
    quick_questions,
)
from denoise_lab.split import hash_fraction

NQ, COMPANY = "NQ", "company"
TWO_WIKI = "2WikiMultihopQA"
FILES = {
    NQ: "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    TWO_WIKI: "2wikimultihopqa",
    COMPANY: "company",
}
# Questions fitted on and measured, passages of each, characters of each passage.
SIZES = {
    NQ: (40, 60, 10, None),
    TWO_WIKI: (50, 60, 6, 500),
    COMPANY: (50, 60, 8, None),
}
OTHER_SIZE = (30, 40, 6, 500)
ABOUT = {
    NQ: "40 questions fitted on, 60 measured, 10 passages each",
    TWO_WIKI: "50 questions fitted on, 60 measured, 6 passages of 500 characters at most each",
    COMPANY: "50 questions fitted on, 60 measured, in an order given by a hash, 8 pieces of 600 characters at "
    "most each: the needed ones and the next by BM25",
    "other sets": "30 questions fitted on, 40 measured, 6 passages of 500 characters at most each",
}
LAYERS = {NQ: (6, 8, 10, 12, 14, 18)}
OTHER_LAYERS = (10, 14, 18)
HEAD_LAYERS = range(1, 19)
EARLY, MIDDLE = 10, 18  # the highest layers that aims are about
POOLED = ("mean_question", "last_mean_question")
KEPT = 0.3
COST_COUNT = 3  # questions whose scoring is timed
CONTEXT_TOKENS = {2000: 0.6, 4000: 0.5}  # and the share of a full pass that is allowed
REPEATS = 2
ANSWER_COUNT = 100

Row: TypeAlias = tuple[str, list[float], str, dict[str, float]]  # with its aim
Reading: TypeAlias = tuple[int, str]  # a layer and a pooling
ByReading: TypeAlias = Mapping[Reading, list[float]]  # one value a question


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "end_model")
    parser.add_argument("--only")
    bench = Benchmark("end_model", "END on a real language model", parser)
    if bench.quick:
        add_rows(bench, NQ, sweep_small_model())
    else:
        report_model(bench)
    bench.finish()


def sweep_small_model() -> list[Row]:
    reader = HiddenReader(
        QUICK_SHAPE.build_model(),
        tokenizer=load_tokenizer(minilm_folder()),
        prefix=PrefixCache(0),
    )
    questions = quick_questions()
    fitted = fit_probe(reader, questions[:4], layers=(2, 3), fraction=KEPT)
    areas, _ = sweep(reader, fitted, questions[4:], None)
    rows: list[Row] = []
    for (layer, pooling), values in areas.items():
        rows.append((f"AUC, layer {layer}, {pooling}", values, "AUC", {}))
    return rows


def report_model(bench: Benchmark) -> None:
    """Measure the steps whose rows are not kept yet, or ``--only`` one; add all rows known then."""
    given = bench.given
    bench.about = {"model": Path(given.model).name, **ABOUT}
    folder = given.folder / bench.about["model"]
    folder.mkdir(parents=True, exist_ok=True)
    run = ModelRun(given.model, bench.folder, folder)
    rows_by_step = {}
    for name, measure_step in run.steps().items():
        path = folder / f"{name}.json"
        if not path.exists() and given.only in (None, name):
            path.write_text(json.dumps(measure_step()), encoding="utf-8")
        if path.exists():
            rows_by_step[name] = json.loads(path.read_text(encoding="utf-8"))
    for name, rows in rows_by_step.items():
        add_rows(bench, name, rows)
    add_rows(bench, "all sets", _mean_rows(rows_by_step))


def add_rows(bench: Benchmark, name: str, rows: Sequence[Row]) -> None:
    view = bench.under(f"{name}: ")
    for measure, values, unit, aim in rows:
        if len(values) == 1:
            view.row(measure, values[0], unit, **aim)
        else:
            view.mean(measure, values, unit, **aim)


class ModelRun:
    """What is measured of a model; what was read of it is kept in ``folder``."""

    def __init__(self, model: str, data: Path, folder: Path) -> None:
        self.data = data
        self.states_folder = folder / "states"
        self.model = shared_model(model, has_lm_head=True)
        self.tokenizer = load_tokenizer(model)
        self.reader = HiddenReader(
            self.model, tokenizer=self.tokenizer, prefix=PrefixCache(0)
        )

    def steps(self) -> dict[str, Callable[[], list[Row]]]:
        steps: dict[str, Callable[[], list[Row]]] = {}
        for name in FILES:
            steps[name] = partial(self._set_rows, name)
        steps["costs"] = self._cost_rows
        steps["drafts"] = self._draft_rows
        steps["answers"] = self._answer_rows
        return steps

    def _draft_rows(self) -> list[Row]:
        return draft_rows(draft_replies(self._llm, self._answer_questions()))

    def _answer_rows(self) -> list[Row]:
        replies = answer_replies(self._llm, self.probe_scorer, self._answer_questions())
        return answer_rows(replies)

    @property
    def _llm(self) -> LocalLLM:
        return LocalLLM(self.model, self.tokenizer, max_new_tokens=NEW_TOKENS)

    def _answer_questions(self) -> list[Question]:
        """Of NQ, with all their passages and an answer, behind those that a probe was fitted on."""
        fitting, _ = self._questions(NQ)
        fitted_ids = {question.id for question in fitting}
        usable = []
        for question in self._read_set(NQ):
            has_answer = bool(question.answers) and bool(question.gold)
            if has_answer and question.id not in fitted_ids:
                usable.append(question)
        return usable[:ANSWER_COUNT]

    def _questions(self, name: str) -> tuple[list[Question], list[Question]]:
        """Those to fit on and those to measure on."""
        fitted_count, measured_count, passages, characters = SIZES.get(name, OTHER_SIZE)
        usable = []
        for question in self._read_set(name):
            short = cut_question(question, passages, characters)
            if 0 < len(short.gold) < len(short.passages):
                usable.append(short)
        end = fitted_count + measured_count
        return usable[:fitted_count], usable[fitted_count:end]

    def _read_set(self, name: str) -> Sequence[Question]:
        if name == COMPANY:
            return company_cases(self.data)
        records = enumerate(read_data_set(self.data, FILES[name]), 1)
        return parse_cases(records, labelled=True, skip_bad=False).questions

    def _fit_probe(self, name: str) -> ProbeFit:
        fitting, _ = self._questions(name)
        return fit_probe(
            self.reader,
            fitting,
            layers=LAYERS.get(name, OTHER_LAYERS),
            fraction=KEPT,
            folder=self.states_folder,
        )

    def _fit_heads(self, fitting: Sequence[Question]) -> HeadFit:
        return fit_heads(
            self._head_reader(),
            fitting,
            layers=HEAD_LAYERS,
            folder=self.states_folder,
        )

    @cached_property
    def probe_scorer(self) -> ProbeScorer:
        """By the probe of the first set."""
        return ProbeScorer(self.reader, self._fit_probe(NQ).probe)

    def _head_reader(self, max_bytes: int = 0) -> HeadReader:
        cache = PrefixCache(max_bytes)
        return HeadReader(self.model, tokenizer=self.tokenizer, prefix=cache)

    def _set_rows(self, name: str) -> list[Row]:
        """Probes, heads and the default on the same questions, and heads with the default."""
        fitting, measured = self._questions(name)
        fitted = self._fit_probe(name)
        chosen = _chosen_reading(fitted)
        areas, kept = sweep(self.reader, fitted, measured, self.states_folder)
        rows = []
        if name == NQ:
            rows = _aim_rows(areas, kept, chosen)
        head_fit = self._fit_heads(fitting)
        head_scores = _scores_of(
            ProbeScorer(self._head_reader(), head_fit.probe), measured
        )
        default_scores = _scores_of(DefaultScorer(), measured)
        stack = _stack_with_default(head_fit, fitting)
        both_scores = []
        for pair in zip(head_scores, default_scores, strict=True):
            both_scores.append(stack.combine(np.stack(pair, axis=1)))
        by_probe = areas[chosen]
        by_heads = _areas(head_scores, measured)
        by_default = _areas(default_scores, measured)
        by_both = _areas(both_scores, measured)
        by_measure = {
            "probe": by_probe,
            "heads": by_heads,
            "default": by_default,
            "heads over probe": _subtract(by_heads, by_probe),
            "probe over the default": _subtract(by_probe, by_default),
            "heads with the default over the default": _subtract(by_both, by_default),
        }
        for measure, values in by_measure.items():
            rows.append((f"AUC, {measure}", values, "AUC", {}))
        return rows

    def _cost_rows(self) -> list[Row]:
        """Heads read the first time and again, and END next to reading everything."""
        fitting, _ = self._questions(NQ)
        fitted_texts = {question.text for question in fitting}
        questions = [q for q in self._read_set(NQ) if q.text not in fitted_texts]
        head_fit = self._fit_heads(fitting)
        warm = []
        for question in questions[:COST_COUNT]:
            # A cache of its own for each question: cold, then warm.
            reader = self._head_reader(1 << 30)
            heads = ProbeScorer(reader, head_fit.probe)
            probe_seconds = cpu_seconds(
                partial(_scores_of, self.probe_scorer, [question])
            )
            _scores_of(heads, [question])
            warm.append(
                cpu_seconds(partial(_scores_of, heads, [question])) / probe_seconds
            )
        rows: list[Row] = [
            ("heads, warm, over the probe's time", warm, "ratio", {"at_most": 0.25}),
        ]
        denoiser = ENDDenoiser(self.probe_scorer, keep=KEPT)
        layer = self.probe_scorer.probe.reading.layer
        for token_count, most in CONTEXT_TOKENS.items():
            context = _context(self.reader, questions, token_count)
            ratios = []
            for _ in range(REPEATS):
                ratios.append(_pass_ratio(self.reader, denoiser, context))
            measure = f"END over a full pass, cold, {token_count} tokens, layer {layer}"
            median = float(np.median(ratios))
            rows.append((measure, [median], "of CPU time", {"at_most": most}))
        return rows


def company_cases(data: Path) -> list[Question]:
    """Questions about company files, and about the files that ship, over pieces, best first by BM25.

    The order is that of a hash, since both files are sorted by kind. A piece is needed that has the words of a
    place that the answer needs.
    """
    cases = []
    for folder in (data / COMPANY, UNSEEN):
        for asked in read_questions(folder, None):
            pieces = split_files(asked.files, file_pieces)
            words = [need["text"] for need in asked.needs]
            needed = set()
            for piece in pieces:
                if any(need in piece.text for need in words):
                    needed.add(piece.id)
            texts = [piece.text for piece in pieces]
            scores = BM25Scorer().score(asked.text, texts)
            ranked = [pieces[n] for n in np.argsort(-scores, kind="stable")]
            cases.append(Question(asked.text, tuple(ranked), frozenset(needed)))
    return sorted(cases, key=lambda case: hash_fraction(case.text))


# -- measuring -------------------------------------------------------------------------


def _chosen_reading(fitted: ProbeFit) -> Reading:
    return fitted.chosen.layer, fitted.chosen.pooling


def _stack_with_default(head_fit: HeadFit, fitting: Sequence[Question]) -> Stack:
    """Weigh held-out scores of heads and the default's, on the questions fitted on."""
    default_scores = np.concatenate(_scores_of(DefaultScorer(), fitting))
    signals = np.stack([head_fit.held_out, default_scores], axis=1)
    labels = []
    groups = []
    for number, question in enumerate(fitting):
        labels.append(question.labels)
        groups += [number] * len(question.labels)
    return fit_stack(("heads", "default"), signals, np.concatenate(labels), groups)


def _subtract(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return np.subtract(values, others).tolist()


def sweep(
    reader: HiddenReader,
    fitted: ProbeFit,
    measured: Sequence[Question],
    folder: Path | None,
) -> tuple[ByReading, ByReading]:
    """Of each layer and pooling the AUC and the gold kept, one value a question."""
    layers = sorted({layer_fit.layer for layer_fit in fitted.layers})
    widest = reader.with_pooling(swept_poolings(reader)[-1])
    states = capture_states(widest, measured, layers=layers, folder=folder)
    ends = np.cumsum([len(question.passages) for question in measured])[:-1]
    areas = {}
    kept = {}
    for layer_fit in fitted.layers:
        key = (layer_fit.layer, layer_fit.pooling)
        pooled = states.with_pooling(layer_fit.pooling)
        rows = np.asarray(pooled.by_layer[layer_fit.layer], dtype=np.float32)
        scores = rows @ layer_fit.regression.weight + np.float32(
            layer_fit.regression.bias
        )
        areas[key] = _areas(np.split(scores, ends), measured)
        recalls = recall_at(scores, states.labels, states.question_index, KEPT)
        kept[key] = recalls.tolist()
    return areas, kept


def _areas(scores: Sequence[Any], questions: Sequence[Question]) -> list[float]:
    """Each question's area under the curve."""
    areas = []
    for question_scores, question in zip(scores, questions, strict=True):
        labels = np.array(question.labels)
        one_list = np.zeros(len(labels), dtype=np.intp)
        areas.append(question_auc(np.asarray(question_scores), labels, one_list))
    return areas


def _scores_of(scorer: Scorer, questions: Sequence[Question]) -> list[Any]:
    scores = []
    for question in questions:
        texts = [passage.text_with_header for passage in question.passages]
        scores.append(scorer.score(question.text, texts))
    return scores


def _pass_ratio(
    reader: HiddenReader, denoiser: ENDDenoiser, question: Question
) -> float:
    """Scoring, then reading what is kept, next to reading everything."""

    def denoise_and_read() -> None:
        kept = denoiser.denoise(question.text, question.passages).passages
        _read_whole(reader, question.text, kept)

    read_all = partial(_read_whole, reader, question.text, question.passages)
    whole_seconds = cpu_seconds(read_all)
    return cpu_seconds(denoise_and_read) / whole_seconds


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
                passages.append(Passage(passage.text, str(len(passages))))
    return Question(questions[0].text, tuple(passages), frozenset())


@torch.inference_mode()
def _read_whole(reader: HiddenReader, query: str, passages: Sequence[Passage]) -> None:
    text = "\n\n".join(passage.text for passage in passages)
    text_ids, question_ids = reader.layout.encode([text, query])
    prompt = reader.layout.assemble(text_ids, question_ids)
    decoder = reader.backbone.partial_forward.decoder
    decoder(input_ids=torch.tensor([prompt.ids]), use_cache=False)


# -- rows ------------------------------------------------------------------------------


def _aim_rows(areas: ByReading, kept: ByReading, chosen: Reading) -> list[Row]:
    early = f"layer {EARLY} or less"
    as_cheap = _best(areas, chosen[0], ("last", *POOLED))
    loss = _subtract(as_cheap, areas[chosen])
    return [
        (
            f"best AUC, pooled, {early}",
            _best(areas, EARLY, POOLED),
            "AUC",
            {"at_least": 0.93},
        ),
        (
            f"best AUC, last token, {early}",
            _best(areas, EARLY, ("last",)),
            "AUC",
            {"at_most": 0.8},
        ),
        (
            f"best AUC, pooled, layer {MIDDLE} or less",
            _best(areas, MIDDLE, POOLED),
            "AUC",
            {"at_least": 0.965},
        ),
        (
            "best AUC at the chosen layer over the choice's",
            loss,
            "AUC",
            {"at_most": 0.01},
        ),
        (
            f"best gold in the best 30 %, pooled, {early}",
            _best(kept, EARLY, POOLED),
            "share",
            {"at_least": 0.9},
        ),
    ]


def draft_rows(replies: Replies) -> list[Row]:
    """How often the answer is found, and how often the prompt's delimiters come instead of one."""
    rows: list[Row] = []
    found = {}
    for way, way_replies in replies.items():
        found[way] = [float(reply.is_right) for reply in way_replies]
        rows.append((f"answer found, {way}", found[way], "share", {}))
    loss = _subtract(found[FIVE], found[PLAIN])
    copies = float(sum(reply.has_envelope for reply in replies[PLAIN]))
    measure = "answer found, END's prompt over the plain draft"
    rows.append((measure, loss, "share", {"at_most": 0.05}))
    rows.append(("copied envelopes, plain draft", [copies], "replies", {"at_most": 0}))
    rows.append(("questions", [float(len(found[FIVE]))], "questions", {}))
    return rows


def answer_rows(replies: Replies) -> list[Row]:
    """Answers found and CPU seconds, scoring included; END over all passages."""
    rows: list[Row] = []
    found = {}
    seconds = {}
    for way, way_replies in replies.items():
        found[way] = [float(reply.is_right) for reply in way_replies]
        seconds[way] = [reply.seconds for reply in way_replies]
        rows.append((f"answer found, {way}", found[way], "share", {}))
        rows.append((f"CPU time, {way}", seconds[way], "s", {}))
    for way in replies:
        if way.startswith("END"):
            gain = _subtract(found[way], found[ALL])
            ratio = sum(seconds[way]) / sum(seconds[ALL])
            rows.append((f"answer found, {way}, over all 20", gain, "share", {}))
            measure = f"CPU time, {way}, over all 20"
            rows.append((measure, [ratio], "ratio", {"at_most": 0.45}))
    rows.append(("questions", [float(len(found[ALL]))], "questions", {}))
    return rows


def _best(by_reading: ByReading, layer: int, poolings: Sequence[str]) -> list[float]:
    """The values of the best reading, by its mean over the measured questions."""
    values = []
    for reading in by_reading:
        if reading[0] <= layer and reading[1] in poolings:
            values.append(by_reading[reading])
    return max(values, key=lambda question_values: float(np.mean(question_values)))


def _mean_rows(by_name: Mapping[str, list[Row]]) -> list[Row]:
    differences: list[float] = []
    for rows in by_name.values():
        for measure, values, *_ in rows:
            if measure == "AUC, heads over probe":
                differences += values
    if not differences:
        return []
    return [("AUC, heads over probe", differences, "AUC", {"at_least": 0.04})]


if __name__ == "__main__":
    main()
