"""``rag-denoise fit``: a denoiser of the user's own, from labelled passages."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from denoise_core._optional import require
from denoise_core.cli.options import Engine, SkipBad, Workers, app
from denoise_core.cli.run import keep_of
from denoise_core.cli.terminal import say, show
from denoise_core.embedded.fitted import SHARES, Fitted, check_out, fit_denoiser
from denoise_core.end.fit.probe import ProbeFit
from denoise_core.end.fit.readings import Each
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.service.bulk.rays import begun
from denoise_core.service.bulk.workers import cores_shared

SHOWN = (1, 2, 3, 5, 7)  # tenths of all passages, in the terminal


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="JSON lines, each {'question': ..., 'passages': [...], 'labels': [...]}; a passage is a text or "
            "an object with 'text', a label is true or 1 for a passage that helps to answer."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the denoiser: weights, scale, probe, card.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Hugging Face model by name or folder to fit a probe on; without it only signals are weighed."
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(min=0, help="Index into hidden_states, 0 = embeddings; chosen if left out."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="What you will keep: a number, a share or auto. Layers are compared there.")
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="Labelled questions apart from DATA, on which --keep auto is calibrated."),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help="The share of relevant passages that --keep auto may lose, such as 0.05."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier fit in --out.")] = False,
    skip_bad: SkipBad = False,
    engine: Annotated[Engine | None, typer.Option(help="Read with many processes, or on a Ray cluster.")] = None,
    workers: Workers = None,
) -> None:
    """Fit a denoiser on labelled passages of your own, and say in words whether it is better than cosine.

    Prints what it keeps at each share beside the default, cosine, BM25 and a fit that never saw the questions, and
    warns where one of these is as good. The folder is used by: rag-denoise run --denoiser FOLDER, or
    denoise_core.load_denoiser(FOLDER).
    """
    console = Console(stderr=True)
    check_out(out, overwrite=overwrite)
    if layer is not None and model is None:
        raise InputError("--layer is a layer of --model: give both, or neither")
    if workers is not None and engine is None:
        raise InputError("--workers says how many read side by side: give --engine process or ray too")
    questions = _read(console, data, skip_bad)
    calibration = () if calibrate is None else _read(console, calibrate, skip_bad)
    with Progress(console=console, transient=True) as progress:
        reading = progress.add_task("reading", total=len(questions))
        fitted = fit_denoiser(
            questions,
            model,
            keep="auto" if keep is None else keep_of(keep),
            layers=None if layer is None else [layer],
            calibration=calibration,
            risk=risk,
            progress=lambda done, _: progress.update(reading, completed=done),
            each=map if engine is None else elsewhere(engine, workers),
        )
    fitted.save(out, overwrite=overwrite)
    _report(Console(), fitted, out)
    for warning in fitted.verdict.warnings:
        say(console, f"warning: {warning}", "yellow")


def elsewhere(engine: Engine, workers: int | None) -> Each:
    """A `map` that ``workers`` processes of this machine compute ("process"; one a core when None), or actors of a
    Ray cluster ("ray"). The call travels to each of them once, the items as they are free.

    Results come in the items' order. What the call raises is raised here and ends the work, and so does a process
    that dies, with `InputError`.
    """

    def each(call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        if engine == "ray":
            begun()
            with require("ray.util.multiprocessing", extra="ray").Pool(workers, _hold, (call,)) as actors:
                for found in actors.imap(_held, iter(items)):
                    if isinstance(found, Exception):  # Ray's imap hands it over among the results
                        raise getattr(found, "underlying", found)
                    yield found
            return
        count = workers or os.cpu_count() or 1
        spawned = multiprocessing.get_context("spawn")
        with cores_shared(count), ProcessPoolExecutor(count, spawned, _hold, (call,)) as processes:
            try:
                yield from processes.map(_held, items)
            except BrokenExecutor as error:
                raise InputError("a process died on the way: give fewer --workers, or more memory") from error

    return each


_call: Any = None


def _hold(call: Callable[[Any], Any]) -> None:
    global _call
    _call = call


def _held(item: Any) -> Any:
    return _call(item)


def _read(console: Console, data: Path, skip_bad: bool) -> Sequence[Question]:
    loaded = read_questions(data, skip_bad=skip_bad)
    for bad in loaded.bad:
        say(console, f"left out: {data}, record {bad.place}: {bad.reason}", "yellow")
    if not loaded.questions:
        raise InputError(f"{data} holds no labelled question; rag-denoise fit --help shows what a line looks like")
    return loaded.questions


def _report(console: Console, fitted: Fitted, out: Path) -> None:
    if fitted.probe is not None:
        show(console, _layers(fitted.probe), "The probe: relevant passages kept, on questions not fitted on")
    show(console, _curves(fitted), "Relevant passages kept, by the share of all kept")
    weights = ", ".join(f"{n} {w:.2f}" for n, w in zip(fitted.stack.names, fitted.stack.weight, strict=True))
    scale = fitted.scale
    risks = ", ".join(f"{100 * r:g} %" for r in sorted(scale.margins))
    for line in (
        f"weights: {weights}",
        str(fitted.verdict),
        f"keep='auto' is calibrated on {scale.questions} questions, for losing at most: {risks}",
        f"saved to {out}; use it: rag-denoise run --denoiser {out}, or load_denoiser({str(out)!r})",
    ):
        say(console, line)


def _curves(fitted: Fitted) -> list[list[str]]:
    """Relevant passages kept at each share, and what the fit keeps more at the share it is judged at."""
    verdict = fitted.verdict
    at = [n for n, share in enumerate(SHARES) if round(10 * share) in SHOWN]
    rows = [["scorer", *(f"{SHARES[n]:.0%}" for n in at), f"fitted has more at {verdict.share:.0%}"]]
    for name, values in verdict.curves.items():
        over = verdict.over.get(name)
        more = "" if over is None else "{:+.2f} ({:+.2f} to {:+.2f})".format(*over)
        rows.append([name, *(f"{values[n]:.2f}" for n in at), more])
    return rows


def _layers(probe: ProbeFit) -> list[list[str]]:
    chosen = probe.probe.reading.layer
    fits = [(f"{f.layer} (chosen)" if f.layer == chosen else str(f.layer), f) for f in probe.layers]
    fits += [(f"{chosen}, {name}", f) for name, f in probe.controls.items()]
    cuts = list(probe.layers[0].recall)
    return [["layer", *cuts], *([name, *(f"{f.recall[c].mean():.2f}" for c in cuts)] for name, f in fits)]
