"""A denoiser fitted on questions of your own, as a folder: weights of the signals, a probe of your model, a scale.

`fit_denoiser` fits and judges it, `Fitted.save` writes it, `load_denoiser` makes a denoiser of the folder. The
folder holds JSON, a probe's safetensors and a card; nothing in it is executed or unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.embedded.default import DefaultScorer, shared_encoder
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.minilm import HUB_NAME, minilm_folder
from denoise_core.end.calibration import (
    CALIBRATED_RISKS,
    FLOOR_MISS_RATE,
    GOLD_TARGETS,
    calibrate_margins,
    min_question_count,
    required_text_fraction,
)
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.fit.probe import ProbeFit, assign_folds, fit_probe
from denoise_core.end.fit.stack import fit_stack
from denoise_core.end.fit.states import MapFunction, Progress
from denoise_core.end.probe import (
    Probe,
    check_replaceable,
    markdown_table,
    replace_folder,
)
from denoise_core.end.scorer import ProbeScorer
from denoise_core.end.selection import DEFAULT_RISK, ScoreCalibration
from denoise_core.errors import InputError
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import (
    SignalSource,
    Stack,
    StackedScorer,
    collect_signals,
)
from denoise_core.text.token_budget import CHARACTERS_PER_TOKEN

FORMAT, VERSION = "rag-denoise denoiser", 1
MANIFEST, CARD, PROBE = "denoiser.json", "README.md", "probe"
OURS = frozenset(
    {MANIFEST, CARD, PROBE, "curves.svg"}
)  # the last one was written by version 0.2
MIN_QUESTIONS = 20  # questions with a relevant and another passage
FOLDS = 5
AUTO_SHARE = 0.5  # what keep="auto" leaves on most lists: where layers and scorers are compared then

Floats = NDArray[np.float32]


class FittedScorer(StackedScorer):
    """A stack that knows what its scores mean, for ``keep="auto"``."""

    def __init__(
        self,
        parts: Sequence[Scorer | SignalSource],
        stack: Stack,
        scale: ScoreCalibration,
    ) -> None:
        super().__init__(parts, stack)
        self.scale = scale

    def precompute(self, texts: Sequence[str]) -> int:
        """Read texts before any question: see `SentenceEncoder.precompute`."""
        return sum(
            part.precompute(texts)
            for part in self.parts
            if isinstance(part, SentenceEncoder)
        )


@dataclass(frozen=True, slots=True, eq=False)
class FittedDenoiser:
    """A fitted denoiser and what is known about it. ``probe`` is None when no model was given; ``risk`` is what
    ``keep="auto"`` is used with unless said otherwise, None for `RISK` or the lowest that was calibrated for."""

    stack: Stack
    scale: ScoreCalibration
    keep: float | int | str
    evaluation: FitEvaluation
    probe: ProbeFit | None = None
    risk: float | None = None

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder, whole or not at all. Raises `InputError` when it holds an earlier fit and not
        ``overwrite``, and always when it holds anything else."""
        folder = Path(folder)
        check_output_folder(folder, overwrite=overwrite)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "stack": self.stack.to_dict(),
            "scale": self.scale.to_dict(),
            "keep": self.keep,
            "risk": self.risk,
            "verdict": asdict(self.evaluation) | {"warnings": self.evaluation.warnings},
            "probe": self.probe is not None,
        }
        with replace_folder(folder, own_names=OURS) as stage:
            (stage / MANIFEST).write_text(
                json.dumps(manifest, indent=1) + "\n", encoding="utf-8"
            )
            (stage / CARD).write_text(self.card(), encoding="utf-8", errors="replace")
            if self.probe is not None:
                self.probe.probe.save(stage / PROBE)
        return folder

    def card(self) -> str:
        """How it did on questions that the fit had not seen, for people."""
        warned = "".join(f"Warning: {w}.\n\n" for w in self.evaluation.warnings)
        return f"# A fitted denoiser\n\n{self.evaluation}\n\n{warned}{markdown_table(self.evaluation.table_rows())}\n"


def fit_denoiser(
    questions: Sequence[Question],
    model: Any = None,
    *,
    keep: float | int | str = "auto",
    layers: Sequence[int] | None = None,
    calibration: Sequence[Question] = (),
    risk: float | None = None,
    progress: Progress | None = None,
    map_function: MapFunction = map,
) -> FittedDenoiser:
    """Fit on labelled questions, and judge the fit on folds of them that it did not see.

    Without ``model`` the embedded signals alone are weighed, without torch. With one (a name, a path, an object or
    a `HiddenReader`) a probe is fitted at each of ``layers`` (all when None), the cheapest that loses little at
    ``keep`` is taken, and its logits are one more signal. ``each`` in the place of `map`, such as the `map` of a
    pool of threads, has passages read there; results come in order.

    What ``keep="auto"`` promises is calibrated on ``calibration``, questions apart from ``questions``; without
    them on scores that folds of the fit gave to questions that they had not seen. ``risk`` is the share of
    relevant passages that may be lost, and becomes the folder's own. ``progress`` hears of questions read, and of
    all.

    Raises `InputError` for fewer than `FEWEST` usable questions, for a question in both, and for a ``risk`` that
    so few questions cannot promise; needs the extras ``end`` and ``knowledge``.
    """
    usable = [q for q in questions if 0 < len(q.gold) < len(q.passages)]
    if len(usable) < MIN_QUESTIONS:
        raise InputError(
            f"{len(usable)} questions have both relevant and other passages: expected {MIN_QUESTIONS} or more, better 200"
        )
    apart = _apart(usable, calibration)
    risks = _risks(len(apart) if calibration else len(usable), risk)
    share = float(keep) if isinstance(keep, float) else AUTO_SHARE
    probe: ProbeFit | None = None
    if model is not None:
        probe = fit_probe(
            model,
            usable,
            layers=layers,
            fraction=share,
            progress=progress,
            map_blocks=map_function,
        )
    asked = _asked(usable)
    labels = np.array([label for q in usable for label in q.labels])
    groups = np.repeat(np.arange(len(usable)), [len(q.passages) for q in usable])
    names = (*(("probe",) if probe else ()), *SentenceEncoder.names, "bm25")
    signals = _signals(asked, map_function, progress if probe is None else None)
    blind = _signals([(SAME_QUESTION, texts) for _, texts in asked], map_function)
    columns = signals
    if probe is not None:
        line = next(
            f for f in probe.layers if f.layer == probe.probe.reading.layer
        ).line
        columns = np.column_stack([line.held_out, signals]).astype(np.float32)
        same = [replace(q, text=SAME_QUESTION) for q in usable]
        (control,) = fit_probe(
            model, same, layers=[probe.probe.reading.layer], map_blocks=map_function
        ).layers
        blind = np.column_stack([control.line.held_out, blind]).astype(np.float32)
    unseen = _unseen(names, columns, labels, groups)
    stack = fit_stack(names, columns, labels, groups.tolist())
    scored = [
        (unseen[groups == i], labels[groups == i].tolist()) for i in range(len(usable))
    ]
    if calibration:
        own = StackedScorer(
            _parts(None if probe is None else ProbeScorer(model, probe.probe)), stack
        )
        scored = [
            (own.score(*one), list(q.labels))
            for one, q in zip(_asked(apart), apart, strict=True)
        ]
    scale = calibrate_margins(
        {"your questions": scored}, risks=risks, miss_rate=FLOOR_MISS_RATE
    )
    others = {
        "default": np.concatenate([DefaultScorer().score(*one) for one in asked]),
        "cosine": signals[:, 0],
        "BM25": signals[:, -1],
        NO_QUESTION: _unseen(names, blind, labels, groups),
    }
    sizes = np.array([float(len(text)) for _, texts in asked for text in texts])
    verdict = evaluate_fit({"fitted": unseen} | others, labels, sizes, groups)
    return FittedDenoiser(stack, scale, keep, verdict, probe, risk)


def load_denoiser(
    folder: str | Path,
    model: Any = None,
    *,
    keep: float | int | str | None = None,
    risk: float | None = None,
    on_irrelevant: OnIrrelevant = "keep",
) -> ENDDenoiser:
    """The denoiser in ``folder``, as `Fitted.save` and ``rag-denoise fit`` write it.

    ``model`` is the probe's, by name, path or object, where it does not lie under the name it was fitted by.
    ``keep``, ``risk`` and ``on_irrelevant`` as in `ENDDenoiser`; ``keep`` is the fitted one unless given. Raises
    `InputError` for a folder that holds no denoiser.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    stack, scale = (
        Stack.from_dict(manifest["stack"]),
        ScoreCalibration.from_dict(manifest["scale"]),
    )
    read_by, tokenizer = None, None
    if manifest["probe"]:
        probe = Probe.load(folder / PROBE)
        if model is None and probe.reading.model.name == HUB_NAME:
            model, tokenizer = torch_minilm()
        read_by = ProbeScorer(
            model or probe.reading.model.name, probe, tokenizer=tokenizer
        )
    chosen = manifest["keep"] if keep is None else keep
    if chosen == "auto" and risk is None:
        risk = manifest.get("risk") or (
            DEFAULT_RISK if DEFAULT_RISK in scale.margins else max(scale.margins)
        )
    return ENDDenoiser(
        FittedScorer(_parts(read_by), stack, scale),
        keep=chosen,
        risk=risk,
        chunker="auto",
        on_irrelevant=on_irrelevant,
    )


def torch_minilm() -> tuple[Any, Any]:
    """MiniLM as a model of transformers, and its tokenizer: for a probe on it. Needs the extra ``end``."""
    transformers = require("transformers", extra="end")
    model = transformers.AutoModel.from_pretrained(
        str(minilm_folder()), use_safetensors=True, dtype="float32"
    )
    model.name_or_path = (
        HUB_NAME  # not where it lies here: a probe's card may be shown around
    )
    return model.eval(), transformers.AutoTokenizer.from_pretrained(
        str(minilm_folder())
    )


def check_output_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Raises `InputError` when `Fitted.save` would refuse: worth asking before hours of work."""
    check_replaceable(folder, OURS)
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} holds an earlier fit: choose another folder, or say --overwrite (overwrite=True)"
        )


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} holds no denoiser: expected {MANIFEST}, as 'rag-denoise fit' writes it ({error})"
        ) from error
    told = manifest if isinstance(manifest, dict) else {}
    known = (told.get("format"), told.get("version")) == (FORMAT, VERSION)
    if not known or not {"stack", "scale", "keep", "probe"} <= set(told):
        raise InputError(
            f"{folder / MANIFEST} is not a denoiser of this release; fit it again"
        )
    return told


def _apart(
    usable: Sequence[Question], calibration: Sequence[Question]
) -> list[Question]:
    apart = [q for q in calibration if q.gold]
    if shared := {q.text for q in usable} & {q.text for q in apart}:
        raise InputError(
            f"{len(shared)} questions are both fitted and calibrated on: keep them apart"
        )
    return apart


def _asked(questions: Sequence[Question]) -> list[tuple[str, list[str]]]:
    """Each question with its texts, as a scorer takes them."""
    return [(q.text, [p.text_with_header for p in q.passages]) for q in questions]


def _risks(n: int, risk: float | None) -> list[float]:
    """The risks that ``n`` questions can promise, with the one that is asked for among them."""
    if risk is not None and not 0 < risk < 1:
        raise InputError(f"risk={risk}: expected a share between 0 and 1, such as 0.05")
    least = max(CALIBRATED_RISKS) if risk is None else risk
    if n < min_question_count(least):
        raise InputError(
            f"a risk of {100 * least:g} % needs {min_question_count(least)} calibration questions with a relevant "
            f"passage, here are {n}: give more, or accept a higher risk"
        )
    return sorted({*(r for r in CALIBRATED_RISKS if n >= min_question_count(r)), least})


def _signals(
    asked: Sequence[tuple[str, list[str]]],
    each: MapFunction,
    progress: Progress | None = None,
) -> Floats:
    """What the embedded encoder and BM25 say of each text, ``(n, 4)``."""
    found = []
    for n, signals in enumerate(each(_signals_of, asked), 1):
        found.append(signals)
        if progress is not None:
            progress(n, len(asked))
    return np.concatenate(found)


def _signals_of(asked: tuple[str, list[str]]) -> Floats:
    """The embedded signals and BM25 of a question's passages; found by its name in other processes."""
    return collect_signals(_parts(), *asked)


def _parts(probe: ProbeScorer | None = None) -> list[Scorer | SignalSource]:
    """What a stack is of: a probe, where there is one, the embedded signals and BM25."""
    return [*(() if probe is None else (probe,)), shared_encoder(), BM25Scorer()]


def _unseen(
    names: Sequence[str],
    columns: Floats,
    labels: NDArray[np.bool_],
    groups: NDArray[np.intp],
) -> Floats:
    """Each row's score by weights that did not see its question."""
    fold = assign_folds(groups, labels, FOLDS)
    out = np.empty(len(labels), dtype=np.float32)
    for f in range(int(fold.max()) + 1):
        seen = fold != f
        out[~seen] = fit_stack(
            names, columns[seen], labels[seen], groups[seen].tolist()
        ).combine(columns[~seen])
    return out


Word = Literal["better", "no difference found", "worse"]
Interval = tuple[float, float, float]  # a value and the ends of its 95 % interval
NO_QUESTION = (
    "no question"  # the fit again, each passage read under one and the same question:
)
SAME_QUESTION = "What is this about?"


@dataclass(frozen=True, slots=True)
class FitEvaluation:
    """``word`` says whether the fit needs less text than cosine to keep the first of `TARGETS` of the gold,
    ``gain`` how much less, as a share of all text, with its 95 % interval.

    ``needed`` has by name ("fitted", "default", "cosine", "BM25", `NO_QUESTION`) the share of the text needed for
    each of `TARGETS`, with its interval; ``over`` what the fit needs less than each, paired. A question has
    ``tokens`` tokens on average; ``labelled`` is the share of text in passages that the labels name.
    """

    outcome: Word
    gain: float
    interval: tuple[float, float]
    questions: int
    tokens_per_question: float
    relevant_text_share: float
    text_needed: Mapping[str, Sequence[Interval]]
    gains_over: Mapping[str, Interval]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against using the fit: a control without the question, or the default, that is as good."""
        as_good = [
            (told, self.gains_over[name])
            for name, told in _AS_GOOD.items()
            if name in self.gains_over
        ]
        return tuple(
            f"{told} ({gain:+.3f} of the text, 95 % {low:+.3f} to {high:+.3f})"
            for told, (gain, low, high) in as_good
            if low <= 0
        )

    def count_saved_tokens(self, name: str, target: float = GOLD_TARGETS[0]) -> int:
        """Tokens of a thousand questions that are not read, against everything."""
        return round(
            1000
            * self.tokens_per_question
            * (1 - self.text_needed[name][GOLD_TARGETS.index(target)][0])
        )

    def __str__(self) -> str:
        said = self.outcome[:1].upper() + self.outcome[1:]
        low, high = self.interval
        mine, theirs = (
            self.text_needed["fitted"][0][0],
            self.text_needed["cosine"][0][0],
        )
        return (
            f"{said}, against cosine: {GOLD_TARGETS[0]:.0%} of the relevant passages are kept in {mine:.3f} of the "
            f"text in place of {theirs:.3f}, a gain of {self.gain:+.3f} (95 % {low:+.3f} to {high:+.3f}), "
            f"{1000 * self.gain * self.tokens_per_question:+,.0f} tokens a thousand questions, on {self.questions} questions, "
            f"each scored by a fit that had not seen it."
        )

    def table_rows(self) -> list[list[str]]:
        """A header, and of each scorer the text needed for `TARGETS`, and tokens saved at the first."""
        out = [["text for gold", *(f"{t:.0%}" for t in GOLD_TARGETS), "saved/1,000"]]
        for name, needed in self.text_needed.items():
            shares = ("{:.2f} ({:.2f}-{:.2f})".format(*n) for n in needed)
            out.append([name, *shares, f"{self.count_saved_tokens(name):,}"])
        return [*out, ["labelled", f"{self.relevant_text_share:.2f}", "", "", ""]]


def evaluate_fit(
    scores: Mapping[str, NDArray[np.float32]],
    labels: NDArray[np.bool_],
    sizes: NDArray[np.float64],
    groups: NDArray[np.intp],
) -> FitEvaluation:
    """The verdict of scores ``(n,)`` by name: "fitted", which fits of `FOLDS` gave to questions that they had not
    seen, "cosine" and others. ``sizes`` ``(n,)`` are the passages' characters.

    The interval is the bootstrap's, widened for the questions that the folds' fits share.
    """
    found = {
        name: [
            required_text_fraction(s, labels, sizes, groups, fraction=t)
            for t in GOLD_TARGETS
        ]
        for name, s in scores.items()
    }
    over = {
        name: percentile_interval(rows[0] - found["fitted"][0], FOLDS)
        for name, rows in found.items()
    }
    gain, low, high = over["cosine"]
    n = len(np.unique(groups))
    return FitEvaluation(
        "better" if low > 0 else "worse" if high < 0 else "no difference found",
        gain,
        (low, high),
        n,
        float(sizes.sum()) / n / CHARACTERS_PER_TOKEN,
        float(
            (np.bincount(groups, sizes * labels) / np.bincount(groups, sizes)).mean()
        ),
        {
            name: [percentile_interval(row) for row in rows]
            for name, rows in found.items()
        },
        {name: row for name, row in over.items() if name != "fitted"},
    )


def percentile_interval(
    found: NDArray[np.float64], folds: int | None = None
) -> Interval:
    """Of a value and of the same of samples."""
    value, wider = (
        float(found[0]),
        1.0 if folds is None else sqrt(1 + folds / (folds - 1)),
    )
    low, high = (
        max(-1.0, min(1.0, value + wider * (float(e) - value)))
        for e in np.quantile(found[1:], (0.025, 0.975))
    )
    return value, low, high


_AS_GOOD = {
    NO_QUESTION: (
        "a fit that never saw the questions is not told from this one: relevant passages can be told by their "
        "style alone, so the labels may say little about your questions"
    ),
    "default": "the default, which needs no fit, is not told from this one",
}
