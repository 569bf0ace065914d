"""A denoiser fitted on questions of your own, as a folder: weights of the signals, a probe of your model, a scale.

`fit_denoiser` fits and judges it, `Fitted.save` writes it, `load_denoiser` makes a denoiser of the folder. The
folder holds JSON, a probe's safetensors and a card; nothing in it is executed or unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.embedded.default import encoder
from denoise_core.embedded.encoder import SentenceEncoder
from denoise_core.embedded.verdict import SHARES, Verdict, judged
from denoise_core.embedded.weights import HUB_NAME, minilm
from denoise_core.end.auto import RISK, RISKS, AutoScale, auto_scale
from denoise_core.end.calibration import questions_needed
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.fit.plot import plot_curves
from denoise_core.end.fit.probe import ProbeFit, fit_probe
from denoise_core.end.fit.readings import Each, Progress
from denoise_core.end.fit.regression import folds_of
from denoise_core.end.probe import Probe
from denoise_core.end.probe_folder import OURS as PROBE_FILES
from denoise_core.end.probe_folder import check_free, replacing
from denoise_core.end.reader import HiddenReader
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError, MissingExtra
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.running.heard import fell_back
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.stack import Signals, Stack, StackedScorer, collect, fit_stack

FORMAT, VERSION = "rag-denoise denoiser", 1
MANIFEST, CARD, PROBE, CURVES = "denoiser.json", "README.md", "probe", "curves.svg"
OURS = frozenset({MANIFEST, CARD, PROBE, CURVES})
FEWEST = 20  # questions with a relevant and another passage
FOLDS = 5
AUTO_SHARE = 0.5  # what keep="auto" leaves on most lists: where layers and scorers are compared then

Floats = NDArray[np.float32]


class FittedScorer(StackedScorer):
    """A stack that knows what its scores mean, for ``keep="auto"``."""

    def __init__(self, parts: Sequence[Scorer | Signals], stack: Stack, scale: AutoScale) -> None:
        super().__init__(parts, stack)
        self.scale = scale

    def warm(self, texts: Sequence[str]) -> int:
        """Read texts before any question: see `SentenceEncoder.warm`."""
        return sum(part.warm(texts) for part in self.parts if isinstance(part, SentenceEncoder))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted denoiser and what is known about it. ``probe`` is None when no model was given."""

    stack: Stack
    scale: AutoScale
    keep: float | int | str
    verdict: Verdict
    probe: ProbeFit | None = None

    def save(self, folder: str | Path) -> Path:
        """Write the folder, whole or not at all: without its picture, and said so in the log, where the extra
        ``evaluate`` is missing. Raises `InputError` when it holds anything else."""
        folder = Path(folder)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "stack": self.stack.to_dict(),
            "scale": self.scale.to_dict(),
            "keep": self.keep,
            "verdict": self.verdict.to_dict(),
            "probe": self.probe is not None,
        }
        with replacing(folder, ours=OURS) as stage:
            (stage / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            (stage / CARD).write_text(self.card(), encoding="utf-8", errors="replace")
            if self.probe is not None:
                self.probe.probe.save(stage / PROBE)
            try:
                plot_curves(self.verdict.curves, SHARES, self.verdict.share, stage / CURVES)
            except MissingExtra as error:
                fell_back("Fitted.save", error, f"the folder has no picture, {CURVES}")
        return folder

    def card(self) -> str:
        """What was fitted and how it did on questions that the fit had not seen, for people."""
        weights = "\n".join(f"| {n} | {w:.3f} |" for n, w in zip(self.stack.names, self.stack.weight, strict=True))
        margins = ", ".join(f"{100 * r:g} %: {m:.3g}" for r, m in sorted(self.scale.margins.items()))
        return (
            f"# A fitted denoiser\n\n{self.verdict}\n\n| signal | weight |\n|---|---|\n{weights}\n\n"
            f"Margins of keep='auto' by risk: {margins}. Kept unless said otherwise: {self.keep}.\n\n"
            f"{self.verdict.table()}\n"
        )


def fit_denoiser(
    questions: Sequence[Question],
    model: Any = None,
    *,
    keep: float | int | str = "auto",
    layers: Sequence[int] | None = None,
    states: str | Path | None = None,
    progress: Progress | None = None,
    each: Each = map,
) -> Fitted:
    """Fit on labelled questions, and judge the fit on folds of them that it did not see.

    Without ``model`` the embedded signals alone are weighed, without torch. With one (a name, a path, an object or
    a `HiddenReader`) a probe is fitted at each of ``layers`` (all when None), the cheapest that loses little at
    ``keep`` is taken, and its logits are one more signal. ``states`` keeps what the model computed, so that a run
    that was stopped goes on. ``each`` in the place of `map` has passages read by other processes or machines
    (`denoise_core.service.bulk.spread.Spread`).

    Raises `InputError` for fewer than `FEWEST` usable questions; needs the extras ``end`` and ``knowledge``.
    """
    usable = [q for q in questions if 0 < len(q.gold) < len(q.passages)]
    if len(usable) < FEWEST:
        raise InputError(
            f"{len(usable)} questions have both relevant and other passages: expected {FEWEST} or more, better 200"
        )
    share = float(keep) if isinstance(keep, float) else AUTO_SHARE
    probe = (
        None
        if model is None
        else fit_probe(model, usable, layers=layers, share=share, folder=states, progress=progress, each=each)
    )
    labels = np.array([label for q in usable for label in q.labels])
    groups = np.repeat(np.arange(len(usable)), [len(q.passages) for q in usable])
    names = (*(("probe",) if probe else ()), *SentenceEncoder.names, "bm25")
    texts = [[p.headed for p in q.passages] for q in usable]
    signals = np.concatenate(list(each(_signals, [(q.text, own) for q, own in zip(usable, texts, strict=True)])))
    columns = signals
    if probe is not None:
        line = next(f for f in probe.layers if f.layer == probe.probe.layer).line
        columns = np.column_stack([line.held_out, signals]).astype(np.float32)
    unseen = _unseen(names, columns, labels, groups)
    scored = [(unseen[groups == i], labels[groups == i].tolist()) for i in range(len(usable))]
    stack = fit_stack(names, columns, labels, groups.tolist())
    possible = [r for r in RISKS if len(usable) >= questions_needed(r)]
    scale = auto_scale({"your questions": scored}, _off_topic(stack, usable, probe is not None), risks=possible)
    others = {"cosine": signals[:, 0], "BM25": signals[:, -1]}
    controls = {} if probe is None else {f"probe, {n}": f.line.held_out for n, f in probe.controls.items()}
    return Fitted(stack, scale, keep, judged(unseen, others | controls, labels, groups, share), probe)


def load_denoiser(
    folder: str | Path,
    model: Any = None,
    *,
    keep: float | int | str | None = None,
    risk: float | None = None,
    on_irrelevant: OnIrrelevant = "keep",
    tokenizer: Any = None,
    readings: str | Path | None = None,
) -> ENDDenoiser:
    """The denoiser in ``folder``, as `Fitted.save` and ``rag-denoise fit`` write it.

    ``model`` is the probe's, by name, path or object, where it does not lie under the name it was fitted by.
    ``keep``, ``risk`` and ``on_irrelevant`` as in `ENDDenoiser`; ``keep`` is the fitted one unless given.
    ``readings`` is a folder for what is read of passages. Raises `InputError` for a folder that holds no denoiser.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    stack, scale = Stack.from_dict(manifest["stack"]), AutoScale.from_dict(manifest["scale"])
    parts: list[Scorer | Signals] = [encoder(readings), BM25Scorer()]
    if manifest["probe"]:
        probe = Probe.load(folder / PROBE)
        if model is None and probe.model.name == HUB_NAME:
            model, tokenizer = torch_minilm()
        parts.insert(0, ProbeScorer(model or probe.model.name, probe, tokenizer=tokenizer))
    chosen = manifest["keep"] if keep is None else keep
    if chosen == "auto" and risk is None:
        risk = RISK if RISK in scale.margins else max(scale.margins)
    return ENDDenoiser(
        FittedScorer(parts, stack, scale), keep=chosen, risk=risk, chunker="auto", on_irrelevant=on_irrelevant
    )


def torch_minilm() -> tuple[Any, Any]:
    """MiniLM as a model of transformers, and its tokenizer: for a probe on it. Needs the extra ``end``."""
    transformers = require("transformers", extra="end")
    model = transformers.AutoModel.from_pretrained(str(minilm()), use_safetensors=True)
    model.name_or_path = HUB_NAME  # not where it lies here: a probe's card may be shown around
    return model.eval(), transformers.AutoTokenizer.from_pretrained(str(minilm()))


def hidden_minilm() -> HiddenReader:
    """MiniLM's hidden states."""
    model, tokenizer = torch_minilm()
    return HiddenReader(model, tokenizer=tokenizer)


def check_out(folder: Path) -> None:
    """Raises `InputError` when `Fitted.save` would refuse: worth asking before hours of work."""
    check_free(folder, OURS)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        hint = " (a probe alone: see Probe.load)" if PROBE_FILES & {p.name for p in folder.glob("*.json")} else ""
        raise InputError(
            f"{folder} holds no denoiser{hint}: expected {MANIFEST}, as 'rag-denoise fit' writes it ({error})"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise InputError(f"{folder / MANIFEST} is not a denoiser of this release; fit it again")
    if not {"stack", "scale", "keep", "probe"} <= set(manifest):
        raise InputError(f"{folder / MANIFEST} is damaged: expected stack, scale, keep and probe")
    return manifest


def _signals(asked: tuple[str, list[str]]) -> Floats:
    """The embedded signals and BM25 of a question's passages; found by its name in other processes."""
    return collect([encoder(), BM25Scorer()], *asked)


def _unseen(names: Sequence[str], columns: Floats, labels: NDArray[np.bool_], groups: NDArray[np.intp]) -> Floats:
    """Each row's score by weights that did not see its question."""
    fold = folds_of(groups, labels, FOLDS)
    out = np.empty(len(labels), dtype=np.float32)
    for f in range(int(fold.max()) + 1):
        seen = fold != f
        out[~seen] = fit_stack(names, columns[seen], labels[seen], groups[seen].tolist()).combine(columns[~seen])
    return out


def _off_topic(stack: Stack, questions: Sequence[Question], with_probe: bool) -> list[Floats]:
    """Scores of passages for another question, for the floor; a probe's share of them is its mean."""
    out = []
    for q, other in zip(questions[:50], [*questions[1:50], questions[0]]):
        found = _signals((q.text, [p.headed for p in other.passages]))
        if with_probe:
            found = np.column_stack([np.full(len(found), stack.mean[0]), found])
        out.append(stack.combine(found))
    return out
