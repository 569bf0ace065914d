"""END's tables on a real language model: layers and poolings, prompts, controls, other tasks, answers.

Everything is fitted on some questions of a set and measured on others of it, next to scorers that need no fit.
What the paper shows (arXiv 2502.18915): recall by layer (section 2.2), random weights (Table 3), prompts
(Table 4), a prompt that asks outright (Figure 4), other tasks (Figure 5), and answers by how much noise is read
(Tables 1 and 2).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.sample import sample_questions
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.fit.probe import (
    LayerFit,
    ProbeFit,
    fit_layers,
    fit_probe,
    question_auc,
    swept_poolings,
)
from denoise_core.end.fit.recall import recall_at
from denoise_core.end.fit.states import HiddenStates, capture_states, text_pairs_of
from denoise_core.end.probe import markdown_table
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import parse_cases, read_records
from denoise_core.evaluate.metrics import (
    bootstrap_interval,
    contains_answer,
    exact_match,
)
from denoise_core.local.generation import LocalLLM, tokenize_messages
from denoise_core.local.layout import SCQ
from denoise_core.local.loading import load_tokenizer, shared_model
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.decisions import LLMDiscrim
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.types import Passage
from denoise_lab.controls import with_random_blocks
from denoise_lab.experiments.real_sets import SETS
from denoise_lab.layouts import LAYOUTS
from denoise_lab.plots import plot_layers

Floats: TypeAlias = NDArray[np.float32]
Cells: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[str, int, int], None]
# The questions to fit on, and those to measure on.
QuestionHalves: TypeAlias = tuple[list[Question], list[Question]]
QuestionSets: TypeAlias = Mapping[str, QuestionHalves]

KEPT_SHARE = 0.3
NOISE_LEVELS = (1, 5, 10, 20)  # passages in the prompt, the gold ones among them
KEPT_COUNTS = (6, 3)  # passages that END keeps
# Questions to fit on, and as many to measure on. With 12, twenty passages each and a model
# of 135M weights the paper's tables take 45 minutes on one core.
STUDY_QUESTIONS = 12
# A recall of .9 over 12 questions may miss one of them, and chooses layers that read little.
STUDY_RECALL = 0.99
MANY_LAYERS = 16  # a model with more is read at every second one


@dataclass(frozen=True, slots=True)
class StudyTable:
    """One table: ``name`` for files, ``title`` for readers, and rows with the same keys."""

    name: str
    title: str
    rows: list[Cells]

    def format_cells(self) -> list[list[str]]:
        """A header and the rows, as texts."""
        table_cells = [list(self.rows[0])]
        for row in self.rows:
            row_texts = []
            for value in row.values():
                value_text = str(value)
                if isinstance(value, float):
                    value_text = f"{value:.3f}"
                row_texts.append(value_text)
            table_cells.append(row_texts)
        return table_cells


class ModelStudy:
    """Measures END's tables on one model.

    Args:
        model: A folder or a name on the hub.
        sets: By name the questions to fit on and those to measure on. The layers are swept on
            the first set, and its probe is tried on the others.
        folder: Hidden states are kept here, so that a study that was stopped resumes.
        layers: The layers to read; all of them by default, or every second one of many.
        answer_count: The most questions that the model answers.
        progress: Called with a stage, the number of questions done, and of all.
    """

    def __init__(
        self,
        model: str | Path,
        sets: QuestionSets,
        folder: Path,
        *,
        layers: Sequence[int] | None = None,
        answer_count: int = 20,
        progress: Progress | None = None,
    ) -> None:
        self.model = shared_model(model, has_lm_head=True)
        self.tokenizer = load_tokenizer(model)
        self.reader = HiddenReader(self.model, tokenizer=self.tokenizer)
        self.sets = sets
        self.folder = folder
        self.answer_count = answer_count
        self.progress = progress
        self.main_set = next(iter(sets))
        layer_count = self.reader.layer_count
        step = 1
        if layer_count > MANY_LAYERS:
            step = 2
        default_layers = range(step, layer_count + 1, step)
        self.layers = list(layers or default_layers)
        self._fit: ProbeFit | None = None

    def measure_tables(self) -> Iterator[StudyTable]:
        """Yield the tables, each as soon as it is measured."""
        yield StudyTable("layers", "Layers and poolings", self.measure_layers())
        yield StudyTable("prompts", "Prompts, last token", self.measure_prompts())
        yield StudyTable(
            "controls", "Without what a probe needs", self.measure_controls()
        )
        yield StudyTable("tasks", "Other tasks", self.measure_tasks())
        yield StudyTable("answers", "Answers by what is read", self.measure_answers())
        # Last: it takes more than all of the paper's tables.
        yield StudyTable("scorers", "Next to other scorers", self.measure_scorers())

    @property
    def probe_fit(self) -> ProbeFit:
        """The sweep over layers and poolings, fitted on the first half of the main set."""
        if self._fit is None:
            self._fit = fit_probe(
                self.reader,
                self.sets[self.main_set][0],
                layers=self.layers,
                recall=STUDY_RECALL,
                folder=self.folder,
                progress=self._stage_progress("layers, fitting"),
            )
        return self._fit

    def measure_layers(self) -> list[Cells]:
        """Each layer and pooling on the questions that were not fitted on (paper, section 2.2)."""
        poolings = swept_poolings(self.reader)
        reader = self.reader.with_pooling(poolings[-1])
        _, measured_questions = self.sets[self.main_set]
        states = self._capture_states(reader, measured_questions, self.layers, "layers")
        rows = []
        for layer_fit in self.probe_fit.layers:
            chosen_text = ""
            if layer_fit is self.probe_fit.chosen:
                chosen_text = "chosen"
            sampled_operations = layer_fit.operations[1:]
            low, high = np.quantile(sampled_operations, (0.025, 0.975))
            pooled_states = states.with_pooling(layer_fit.pooling)
            figures = _fit_figures(layer_fit, pooled_states)
            rows.append(
                {
                    "layer": layer_fit.layer,
                    "pooling": layer_fit.pooling,
                    **figures,
                    "operations": float(sampled_operations.mean()),
                    "operations, 95 %": f"{low:.2f} to {high:.2f}",
                    "chosen": chosen_text,
                }
            )
        return rows

    def measure_prompts(self) -> list[Cells]:
        """[S|C|Q]'s probe on each prompt (paper, Table 4), and one fitted on it (Figure 4)."""
        rows = []
        fits = {}
        for layout_name, layout in LAYOUTS.items():
            settings = ReadingSettings(layout=layout, pooling="last")
            reader = self._make_reader(self.model, settings)
            fits[layout_name], states = self._fit_and_capture(reader, layout_name)
            for source in dict.fromkeys((SCQ.name, layout_name)):
                figures = _fit_figures(fits[source], states)
                prompt_row = {"prompt": layout_name, "fitted on": source}
                rows.append(prompt_row | figures)
        return rows

    def measure_controls(self) -> list[Cells]:
        """The chosen layer of a model with random blocks (paper, Table 3), next to the model's own."""
        random_model = with_random_blocks(self.reader.backbone)
        rows = []
        settings = ReadingSettings(pooling=self._pooling)
        for model_name, model in (
            ("the model", self.model),
            ("random weights", random_model),
        ):
            reader = self._make_reader(model, settings)
            layer_fit, states = self._fit_and_capture(reader, model_name)
            figures = _fit_figures(layer_fit, states)
            rows.append({"weights": model_name, **figures})
        return rows

    def measure_tasks(self) -> list[Cells]:
        """The main set's probe on other sets, next to one fitted there (paper, Figure 5)."""
        rows = []
        reader = self.reader.with_pooling(self._pooling)
        for set_name, (fitting_questions, measured_questions) in self.sets.items():
            states = self._capture_states(
                reader, measured_questions, [self._layer], f"{set_name}, measuring"
            )
            fitting_states = self._capture_states(
                reader, fitting_questions, [self._layer], f"{set_name}, fitting"
            )
            (set_fit,) = fit_layers(fitting_states)
            for source, layer_fit in (
                (self.main_set, self.probe_fit.chosen),
                (set_name, set_fit),
            ):
                figures = _fit_figures(layer_fit, states)
                task_row = {"task": set_name, "fitted on": source}
                rows.append(task_row | figures)
        return rows

    def measure_scorers(self) -> list[Cells]:
        """END next to scorers that need no fit."""
        questions = self.sets[self.main_set][1]
        judge = LocalLLM(self.model, self.tokenizer, max_new_tokens=4)
        scorers: dict[str, Scorer] = {
            "END": ProbeScorer(self.reader, self.probe_fit.probe),
            "default": DefaultScorer(),
            "BM25": BM25Scorer(),
            "LLM-Discrim": LLMDiscrim(judge, max_concurrency=1),
        }
        rows = []
        for scorer_name, scorer in scorers.items():
            start_time = time.process_time()
            list_scores = []
            for done, question in enumerate(questions, 1):
                texts = [text for _, text in text_pairs_of([question])]
                list_scores.append(scorer.score(question.text, texts))
                self._report(scorer_name, done, len(questions))
            total_seconds = time.process_time() - start_time
            seconds = total_seconds / len(questions)
            all_scores = np.concatenate(list_scores)
            figures = _score_figures(all_scores, questions)
            rows.append({"scorer": scorer_name, **figures, "CPU seconds": seconds})
        return rows

    def measure_answers(self) -> list[Cells]:
        """Answers of the same model by what it reads (paper, Tables 1 and 2).

        It reads the gold passages with more and more noise, what END keeps, and what the default keeps.
        """
        _, measured_questions = self.sets[self.main_set]
        questions = [question for question in measured_questions if question.answers]
        questions = questions[: self.answer_count]
        if not questions:
            return [{"read": "no question has an accepted answer"}]
        passage_choices: dict[str, Callable[[Question], Sequence[Passage]]] = {}
        for count in NOISE_LEVELS:
            passage_choices[f"{count} passages"] = partial(_add_noise, count=count)
        scorer = ProbeScorer(self.reader, self.probe_fit.probe)
        for count in KEPT_COUNTS:
            probe_denoiser = ENDDenoiser(scorer, keep=count)
            passage_choices[f"END keeps {count}"] = partial(
                _keep_passages, probe_denoiser
            )
        default_count = KEPT_COUNTS[0]
        default = ENDDenoiser(DefaultScorer(), keep=default_count)
        passage_choices[f"default keeps {default_count}"] = partial(
            _keep_passages, default
        )
        rows = []
        for reading_name, choose_passages in passage_choices.items():
            answer_row = self._measure_answer_row(
                reading_name, choose_passages, questions
            )
            rows.append(answer_row)
        return rows

    def _measure_answer_row(
        self,
        reading_name: str,
        choose_passages: Callable[[Question], Sequence[Passage]],
        questions: Sequence[Question],
    ) -> Cells:
        llm = LocalLLM(self.model, self.tokenizer, max_new_tokens=32)
        answer_found = []
        exact_matches = []
        likelihoods = []
        start_time = time.process_time()
        for done, question in enumerate(questions, 1):
            messages = answer_messages(question.text, choose_passages(question))
            reply_text = llm.complete(messages).text
            answer_found.append(float(contains_answer(reply_text, question.answers)))
            exact_matches.append(float(exact_match(reply_text, question.answers)))
            likelihoods.append(self._answer_likelihood(messages, question.answers[0]))
            self._report(reading_name, done, len(questions))
        total_seconds = time.process_time() - start_time
        return {
            "read": reading_name,
            "answer found": float(np.mean(answer_found)),
            "answer found, 95 %": _interval_text(answer_found),
            "exact match": float(np.mean(exact_matches)),
            "log likelihood of the answer": float(np.mean(likelihoods)),
            "questions": len(questions),
            "CPU seconds": total_seconds / len(questions),
        }

    def _answer_likelihood(self, messages: Any, answer: str) -> float:
        """The mean log probability of an accepted answer's tokens after the prompt."""
        torch = require("torch", extra="end")
        prompt_ids = tokenize_messages(self.tokenizer, messages)
        answer_ids = self.tokenizer(answer, add_special_tokens=False)["input_ids"]
        all_ids = prompt_ids + answer_ids
        token_ids = torch.tensor([all_ids], device=self.model.device)
        answer_length = len(answer_ids)
        with torch.inference_mode():
            model_output = self.model(token_ids, logits_to_keep=answer_length + 1)
        answer_logits = model_output.logits[0, -answer_length - 1 : -1]
        log_probabilities = answer_logits.float().log_softmax(-1)
        token_positions = range(answer_length)
        answer_log_probabilities = log_probabilities[token_positions, answer_ids]
        return float(answer_log_probabilities.mean())

    @property
    def _layer(self) -> int:
        return self.probe_fit.chosen.layer

    @property
    def _pooling(self) -> str:
        return self.probe_fit.chosen.pooling

    def _make_reader(self, model: Any, settings: ReadingSettings) -> HiddenReader:
        return HiddenReader(model, tokenizer=self.tokenizer, settings=settings)

    def _fit_and_capture(
        self, reader: HiddenReader, reader_name: str
    ) -> tuple[LayerFit, HiddenStates]:
        """A probe at the chosen layer, and the states to measure it on."""
        fitting_questions, measured_questions = self.sets[self.main_set]
        fitting_states = self._capture_states(
            reader, fitting_questions, [self._layer], f"{reader_name}, fitting"
        )
        states = self._capture_states(
            reader, measured_questions, [self._layer], f"{reader_name}, measuring"
        )
        (layer_fit,) = fit_layers(fitting_states)
        return layer_fit, states

    def _capture_states(
        self,
        reader: HiddenReader,
        questions: Sequence[Question],
        layers: Sequence[int],
        stage: str,
    ) -> HiddenStates:
        return capture_states(
            reader,
            questions,
            layers=layers,
            folder=self.folder,
            progress=self._stage_progress(stage),
        )

    def _stage_progress(self, stage: str) -> Callable[[int, int], None]:
        return partial(self._report, stage)

    def _report(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)


def _fit_figures(layer_fit: LayerFit, states: HiddenStates) -> Cells:
    """Figures of a fitted probe on states that it was not fitted on."""
    layer_states = states.by_layer[layer_fit.layer]
    state_rows = np.asarray(layer_states, dtype=np.float32)
    bias = np.float32(layer_fit.regression.bias)
    scores = state_rows @ layer_fit.regression.weight + bias
    return _ranking_figures(scores, states.labels, states.question_index)


def _score_figures(scores: Floats, questions: Sequence[Question]) -> Cells:
    labels = np.concatenate([question.labels for question in questions])
    passage_counts = [len(question.passages) for question in questions]
    question_numbers = np.arange(len(questions))
    question_index = np.repeat(question_numbers, passage_counts)
    return _ranking_figures(scores, labels, question_index)


def _ranking_figures(
    scores: Floats, labels: NDArray[np.bool_], question_index: NDArray[np.intp]
) -> Cells:
    """AUC and recall in the best `KEPT_SHARE`; all arrays have shape ``(passages,)``."""
    recalls = recall_at(scores, labels, question_index, KEPT_SHARE)
    return {
        "AUC": question_auc(scores, labels, question_index),
        "gold in 30 %": float(recalls.mean()),
        "gold in 30 %, 95 %": _interval_text(recalls.tolist()),
    }


def _interval_text(values: Sequence[float]) -> str:
    low, high = bootstrap_interval(values)
    return f"{low:.2f} to {high:.2f}"


def _add_noise(question: Question, count: int) -> list[Passage]:
    """The gold passages, and others up to ``count``, in the order in which they were retrieved."""
    noise_left = max(0, count - len(question.gold))
    chosen_passages = []
    for passage in question.passages:
        if passage.id in question.gold:
            chosen_passages.append(passage)
        elif noise_left:
            chosen_passages.append(passage)
            noise_left -= 1
    return chosen_passages


def _keep_passages(denoiser: ENDDenoiser, question: Question) -> Sequence[Passage]:
    return denoiser.denoise(question.text, question.passages).passages


def read_study_sets(data: Path | None, count: int) -> QuestionSets:
    """Return by name ``count`` questions to fit on and as many others to measure on.

    Args:
        data: A file of labelled questions, a folder with the sets that the project knows by
            their names, or None for the questions that ship.
        count: Questions of each half of a set.

    Raises:
        InputError: A set has too few questions with relevant and other passages.
    """
    if data is None:
        shipped_questions = sample_questions()
        set_name = "questions that ship"
        return {set_name: _halve_questions(set_name, shipped_questions, count)}
    sets = {}
    for set_name, path in _find_set_files(data).items():
        records = []
        for line_number, record in read_records(path):
            if isinstance(record, dict):
                records.append((line_number, record))
        questions = parse_cases(records, labelled=True).questions
        sets[set_name] = _halve_questions(set_name, questions, count)
    return sets


def _find_set_files(data: Path) -> dict[str, Path]:
    if not data.is_dir():
        return {"questions": data}
    set_files = {}
    for set_name, file_name in SETS.items():
        for path in sorted(data.glob(f"{file_name}.jsonl*")):
            set_files[set_name] = path
    if not set_files:
        raise InputError(f"{data}: expected one of the sets {', '.join(SETS)}")
    return set_files


def _halve_questions(
    set_name: str, questions: Sequence[Question], count: int
) -> QuestionHalves:
    usable = []
    for question in questions:
        if 0 < len(question.gold) < len(question.passages):
            usable.append(question)
    half = min(count, len(usable) // 2)
    if half < 2:
        raise InputError(
            f"{set_name}: {len(usable)} questions have relevant and other passages: expected 4 or more"
        )
    return usable[:half], usable[half : 2 * half]


def save_study(
    study: ModelStudy, tables: Sequence[StudyTable], model: str, folder: Path
) -> list[Path]:
    """Write results.json, tables.md and layers.png, and return their paths."""
    fitting, measured = study.sets[study.main_set]
    record = {
        "model": Path(model).name,
        "sets": list(study.sets),
        "questions fitted on": len(fitting),
        "questions measured": len(measured),
        "tables": {table.name: table.rows for table in tables},
    }
    results_path = folder / "results.json"
    record_text = json.dumps(record, indent=1)
    results_path.write_text(record_text + "\n", encoding="utf-8")
    tables_path = folder / "tables.md"
    sections = [
        f"## {table.title}\n\n{markdown_table(table.format_cells())}\n"
        for table in tables
    ]
    tables_path.write_text("\n".join(sections), encoding="utf-8")
    picture_path = plot_layers(study.probe_fit, folder / "layers.png")
    return [results_path, tables_path, picture_path]
