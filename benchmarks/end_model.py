"""END on a real language model: probes by layer and pooling, attention heads, and what scoring costs.

Probes and heads are fitted on some questions of a set and measured on others of it. A set's rows and what was read
of a model are kept in the system's temporary folder (``--folder`` keeps them elsewhere), so that a run that was
stopped continues; with ``--only NAME`` a run ends after one set, and its results have all rows known by then.
Answers (`_model_answers`) are the last two steps: ``drafts`` and ``answers``, of as many questions as
``--answers`` says; 0 takes those that were answered before.
With ``--model`` another folder or name than SmolLM2's. The quick form sweeps an encoder, which ships.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from _model_answers import (
    ALL,
    ANSWER_WAYS,
    DRAFT_WAYS,
    FIVE,
    NEW_TOKENS,
    PLAIN,
    Replies,
    answer_replies,
    answered_questions,
    draft_replies,
)
from company import UNSEEN, file_pieces, read_questions, split_files
from harness import Benchmark, arguments, read_data_set

from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.fitted import torch_minilm
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit.heads import fit_heads
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
from denoise_core.types import Passage
from denoise_lab.experiments.real_sets import (
    cache_folder,
    cut_question,
    quick_questions,
)
from denoise_lab.split import hash_fraction

NQ, COMPANY, COSTS = "NQ", "company", "costs"
DRAFTS, ANSWERS = "drafts", "answers"
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

Row: TypeAlias = tuple[str, list[float], str, dict[str, float]]  # with its aim
Reading: TypeAlias = tuple[int, str]  # a layer and a pooling
ByReading: TypeAlias = Mapping[Reading, list[float]]  # one value a question


def main(argv: Sequence[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "end_model")
    parser.add_argument("--only")
    parser.add_argument("--answers", type=int, default=100)
    options = arguments("END on a real language model", argv, parser)
    given = options.given
    bench = Benchmark("end_model", options)
    if options.quick:
        model, tokenizer = torch_minilm()
        reader = HiddenReader(model, tokenizer=tokenizer, prefix=PrefixCache(0))
        questions = quick_questions()
        fitted = fit_probe(reader, questions[:4], layers=(2, 3), fraction=KEPT)
        areas, kept = sweep(reader, fitted, questions[4:], None)
        _add_rows(bench, NQ, _sweep_rows(areas, kept))
        return bench.finish()
    bench.about = {"model": Path(given.model).name, **ABOUT}
    run = ModelRun(given.model, options.data, given.folder)
    by_name = run.rows(given.only)
    by_name |= run.reply_rows(given.only, given.answers)
    for name, rows in by_name.items():
        _add_rows(bench, name, rows)
    _add_rows(bench, "all sets", _mean_rows(by_name))
    return bench.finish()


def _add_rows(bench: Benchmark, name: str, rows: Sequence[Row]) -> None:
    for measure, values, unit, aim in rows:
        if len(values) == 1:
            bench.row(
                f"{name}: {measure}",
                values[0],
                unit,
                **aim,
            )
        else:
            bench.mean(
                f"{name}: {measure}",
                values,
                unit,
                **aim,
            )


class ModelRun:
    """The rows of each set and of the costs, read from ``folder`` or measured and kept there."""

    def __init__(self, model: str, data: Path | None, folder: Path) -> None:
        self.data = data  # None says so where it is read
        self.folder = folder / Path(model).name
        self.model = shared_model(model, has_lm_head=True)
        self.tokenizer = load_tokenizer(model)
        self.reader = HiddenReader(
            self.model, tokenizer=self.tokenizer, prefix=PrefixCache(0)
        )

    def rows(self, only: str | None) -> dict[str, list[Row]]:
        """By name of the set; those not kept yet are measured, or ``only`` that one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        steps: dict[str, Callable[[], list[Row]]] = {}
        for name in FILES:
            steps[name] = partial(self._set_rows, name)
        steps[COSTS] = self._cost_rows
        known = {}
        for name, measure in steps.items():
            path = self.folder / f"{name}.json"
            if not path.exists() and only in (None, name):
                path.write_text(json.dumps(measure()), encoding="utf-8")
            if path.exists():
                known[name] = json.loads(path.read_text(encoding="utf-8"))
        return known

    def reply_rows(self, only: str | None, count: int) -> dict[str, list[Row]]:
        """Rows about drafts and answers, which none but a run of this step (or of all) adds to."""
        steps: dict[str, tuple[Sequence[str], Callable[..., Replies]]] = {
            DRAFTS: (DRAFT_WAYS, draft_replies),
            ANSWERS: (ANSWER_WAYS, self._answer_replies),
        }
        llm = LocalLLM(self.model, self.tokenizer, max_new_tokens=NEW_TOKENS)
        path = self.folder / "replies.jsonl"
        known = {}
        for name, (ways, ask) in steps.items():
            questions = self._answer_questions()
            if count == 0 or only not in (None, name):
                questions = answered_questions(ways, questions, path)
            else:
                questions = questions[:count]
            if questions:
                replies = ask(llm, questions, path)
                rows = _draft_rows if name == DRAFTS else _answer_rows
                known[name] = rows(replies)
        return known

    def _answer_replies(
        self, llm: LocalLLM, questions: Sequence[Question], path: Path
    ) -> Replies:
        return answer_replies(llm, self.probe_scorer, questions, path)

    def _answer_questions(self) -> list[Question]:
        """Of NQ, with all their passages and an answer, behind those that a probe was fitted on."""
        fitting, _ = self._questions(NQ)
        fitted_ids = {question.id for question in fitting}
        usable = []
        for question in self._read_set(NQ):
            has_answer = bool(question.answers) and bool(question.gold)
            if has_answer and question.id not in fitted_ids:
                usable.append(question)
        return usable

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
        layers = LAYERS.get(name, OTHER_LAYERS)
        folder = self.folder / "states"
        return fit_probe(
            self.reader,
            fitting,
            layers=layers,
            fraction=KEPT,
            folder=folder,
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
        folder = self.folder / "states"
        fitted = self._fit_probe(name)
        areas, kept = sweep(self.reader, fitted, measured, folder)
        rows = []
        chosen = (fitted.chosen.layer, fitted.chosen.pooling)
        if name == NQ:
            rows = [*_sweep_rows(areas, kept), *_aim_rows(areas, kept, chosen)]
        head_reader = self._head_reader()
        head_fit = fit_heads(
            head_reader,
            fitting,
            layers=HEAD_LAYERS,
            folder=folder,
        )
        heads = ProbeScorer(head_reader, head_fit.probe)
        head_scores = _scores_of(heads, measured)
        default_scores = _scores_of(DefaultScorer(), measured)
        fitted_default = np.concatenate(_scores_of(DefaultScorer(), fitting))
        signals = np.stack([head_fit.held_out, fitted_default], axis=1)
        labels = [question.labels for question in fitting]
        groups = []
        for number, question_labels in enumerate(labels):
            groups += [number] * len(question_labels)
        names = ("heads", "default")
        stack = fit_stack(names, signals, np.concatenate(labels), groups)
        both_scores = []
        for pair in zip(head_scores, default_scores, strict=True):
            pair_signals = np.stack(pair, axis=1)
            both_scores.append(stack.combine(pair_signals))
        by_heads = _areas(head_scores, measured)
        by_default = _areas(default_scores, measured)
        by_both = _areas(both_scores, measured)
        over_default = np.subtract(by_both, by_default).tolist()
        over_probe = np.subtract(by_heads, areas[chosen]).tolist()
        by_measure = {
            "probe": areas[chosen],
            "heads": by_heads,
            "default": by_default,
            "heads over probe": over_probe,
            "probe over the default": np.subtract(areas[chosen], by_default).tolist(),
            "heads with the default over the default": over_default,
        }
        for measure, values in by_measure.items():
            rows.append((f"AUC, {measure}", values, "AUC", {}))
        return rows

    def _cost_rows(self) -> list[Row]:
        """Heads read the first time and again, and END next to reading everything."""
        fitting, _ = self._questions(NQ)
        fitted_texts = {question.text for question in fitting}
        questions = [q for q in self._read_set(NQ) if q.text not in fitted_texts]
        folder = self.folder / "states"
        head_fit = fit_heads(
            self._head_reader(),
            fitting,
            layers=HEAD_LAYERS,
            folder=folder,
        )
        cold = []
        warm = []
        for question in questions[:COST_COUNT]:
            # A cache of its own for each question: cold, then warm.
            reader = self._head_reader(1 << 30)
            heads = ProbeScorer(reader, head_fit.probe)
            probe_seconds = _score_seconds(self.probe_scorer, question)
            cold_seconds = _score_seconds(heads, question)
            cold.append(cold_seconds / probe_seconds)
            warm_seconds = _score_seconds(heads, question)
            warm.append(warm_seconds / probe_seconds)
        rows: list[Row] = [
            (
                "heads, cold, over the probe's time, 20 passages",
                cold,
                "ratio",
                {},
            ),
            (
                "heads, warm, over the probe's time",
                warm,
                "ratio",
                {"at_most": 0.25},
            ),
        ]
        denoiser = ENDDenoiser(self.probe_scorer, keep=KEPT)
        layer = self.probe_scorer.probe.reading.layer
        for token_count, most in CONTEXT_TOKENS.items():
            context = _context(self.reader, questions, token_count)
            ratios = []
            for _ in range(REPEATS):
                ratio = _pass_ratio(self.reader, denoiser, context)
                ratios.append(ratio)
            measure = f"END over a full pass, cold, {token_count} tokens, layer {layer}"
            median = float(np.median(ratios))
            rows.append((measure, [median], "of CPU time", {"at_most": most}))
        return rows


def company_cases(data: Path | None) -> list[Question]:
    """Questions about company files, and about the files that ship, over pieces, best first by BM25.

    The order is that of a hash, since both files are sorted by kind. A piece is needed that has the words of a
    place that the answer needs.
    """
    if data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
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


def _score_seconds(scorer: Scorer, question: Question) -> float:
    start_time = time.process_time()
    _scores_of(scorer, [question])
    return time.process_time() - start_time


def _pass_ratio(
    reader: HiddenReader, denoiser: ENDDenoiser, question: Question
) -> float:
    """Scoring, then reading what is kept, next to reading everything."""
    start_time = time.process_time()
    _read_whole(reader, question.text, question.passages)
    middle_time = time.process_time()
    kept = denoiser.denoise(question.text, question.passages).passages
    _read_whole(reader, question.text, kept)
    end_time = time.process_time()
    return (end_time - middle_time) / (middle_time - start_time)


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


def _sweep_rows(areas: ByReading, kept: ByReading) -> list[Row]:
    rows: list[Row] = []
    for layer, pooling in areas:
        where = f"layer {layer}, {pooling}"
        rows.append((f"AUC, {where}", areas[layer, pooling], "AUC", {}))
        measure = f"gold in the best 30 %, {where}"
        rows.append((measure, kept[layer, pooling], "share", {}))
    return rows


def _aim_rows(areas: ByReading, kept: ByReading, chosen: Reading) -> list[Row]:
    pooled = _best(areas, EARLY, POOLED)
    last = _best(areas, EARLY, ("last",))
    deeper = _best(areas, MIDDLE, POOLED)
    as_cheap = _best(areas, chosen[0], ("last", *POOLED))
    most_kept = _best(kept, EARLY, POOLED)
    loss = np.subtract(as_cheap, areas[chosen]).tolist()
    early = f"layer {EARLY} or less"
    gold = f"best gold in the best 30 %, pooled, {early}"
    middle = f"best AUC, pooled, layer {MIDDLE} or less"
    choice = "best AUC at the chosen layer over the choice's"
    return [
        (
            f"best AUC, pooled, {early}",
            pooled,
            "AUC",
            {"at_least": 0.93},
        ),
        (
            f"best AUC, last token, {early}",
            last,
            "AUC",
            {"at_most": 0.8},
        ),
        (
            middle,
            deeper,
            "AUC",
            {"at_least": 0.965},
        ),
        (
            choice,
            loss,
            "AUC",
            {"at_most": 0.01},
        ),
        (
            gold,
            most_kept,
            "share",
            {"at_least": 0.9},
        ),
    ]


def _draft_rows(replies: Replies) -> list[Row]:
    """How often the answer is found, and how often the prompt's delimiters come instead of one."""
    rows: list[Row] = []
    found = {}
    for way, way_replies in replies.items():
        found[way] = [float(reply.is_right) for reply in way_replies]
        rows.append((f"answer found, {way}", found[way], "share", {}))
    loss = np.subtract(found[FIVE], found[PLAIN]).tolist()
    copies = float(sum(reply.has_envelope for reply in replies[PLAIN]))
    measure = "answer found, END's prompt over the plain draft"
    rows.append((measure, loss, "share", {"at_most": 0.05}))
    rows.append(("copied envelopes, plain draft", [copies], "replies", {"at_most": 0}))
    rows.append(("questions", [float(len(found[FIVE]))], "questions", {}))
    return rows


def _answer_rows(replies: Replies) -> list[Row]:
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
            gain = np.subtract(found[way], found[ALL]).tolist()
            ratio = sum(seconds[way]) / sum(seconds[ALL])
            rows.append((f"answer found, {way}, over all 20", gain, "share", {}))
            rows.append(
                (f"CPU time, {way}, over all 20", [ratio], "ratio", {"at_most": 0.45})
            )
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
