"""``rag-denoise fit``: a denoiser of the user's own, from passages that people or a model have labelled."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from denoise_core._optional import require
from denoise_core.cli import options as o
from denoise_core.cli.evaluate import calls_of, cases_of_file, columns_of, plan, price_of
from denoise_core.cli.options import app
from denoise_core.cli.run import keep_of
from denoise_core.cli.terminal import say, show
from denoise_core.embedded.fitted import Fitted, check_out, fit_denoiser
from denoise_core.end.fit.probe import ProbeFit
from denoise_core.end.fit.readings import Each
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import Cases, read_questions
from denoise_core.evaluate.trial import Ledger
from denoise_core.evaluate.trial.cases import labelled_by
from denoise_core.question import Question
from denoise_core.s2a.teaching import write_labels
from denoise_core.service.bulk.rays import begun
from denoise_core.service.bulk.workers import cores_shared


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="JSON lines, each {'question': ..., 'passages': [...], 'labels': [...]}; a passage is a text or "
            "an object with 'text', a label is true or 1 for a passage that helps to answer. With --label-with "
            "labels may be missing, with --documents passages too: then a .txt file of questions will do."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the denoiser: weights, scale, probe, card.")
    ] = Path("denoiser"),
    documents: o.Documents = None,
    k: o.Searched = 20,
    limit: o.Limit = None,
    label_with: o.ModelThatLabels = None,
    columns: o.Columns = None,
    budget: o.Budget = None,
    price: o.Prices = None,
    dry_run: o.DryRun = False,
    model: Annotated[
        str | None, typer.Option(help="Model by name or folder to fit a probe on; else only signals are weighed.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=0, help="Index into hidden_states, 0 = embeddings; chosen if left out.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="What you will keep: a number, a share or auto. Layers are compared there.")
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="Labelled questions apart from DATA, on which --keep auto is calibrated.")
    ] = None,
    risk: Annotated[
        float | None, typer.Option(help="The share of relevant passages that --keep auto may lose, such as 0.05.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier fit in --out.")] = False,
    skip_bad: o.SkipBad = False,
    engine: Annotated[o.Engine | None, typer.Option(help="Read with many processes, or on a Ray cluster.")] = None,
    workers: o.Workers = None,
) -> None:
    """Fit a denoiser on labelled passages of your own, and say in words whether it is better than cosine.

    Prints how much of the text it needs to keep 90, 95 and 99 % of the relevant passages, beside the default,
    cosine, BM25 and a fit that never saw the questions, and warns where one of these is as good. Use the folder
    by: rag-denoise run --denoiser FOLDER, or denoise_core.load_denoiser(FOLDER).

    With --label-with a model selects the passages that are needed. The price is said first, calls are kept beside
    DATA and never made twice, and labels too (.labels.jsonl): correct them there and run it again.
    """
    console = Console(stderr=True)
    check_out(out, overwrite=overwrite)
    if layer is not None and model is None:
        raise InputError("--layer is a layer of --model: give both, or neither")
    if workers is not None and engine is None:
        raise InputError("--workers says how many read side by side: give --engine process or ray too")
    if label_with is None and documents is None:
        questions = _read(console, data, skip_bad)[:limit]
    else:
        calls, paid = data.with_suffix(".calls.jsonl"), price_of(price)
        ask = None if label_with is None else partial(calls_of, label_with, calls, budget, paid)
        find = partial(cases_of_file, console, data, documents, columns_of(columns or []), k, limit)
        questions = _labelled(console, find, data.with_suffix(".labels.jsonl"), ask, dry_run)
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


def _labelled(
    console: Console, find: Callable[[], Cases], path: Path, ask: Callable[..., Ledger] | None, dry_run: bool
) -> Sequence[Question]:
    """The questions with labels: those in ``path`` where it is there, else made now, and written there."""
    if path.exists():
        say(console, f"labels are those in {path}; delete it to have them made anew")
        return _read(console, path, skip_bad=False)
    cases = find()
    if ask is not None:
        planned = ask(True)
        labelled_by(cases, planned, "")
        plan(console, planned, dry_run)
        if dry_run:
            raise typer.Exit
        with Progress(console=console, transient=True) as bar:
            hear = partial(bar.update, bar.add_task("labelling"))
            cases = labelled_by(cases, ask(False), "the model", progress=lambda n, of: hear(completed=n, total=of))
    known = [c.question for c in cases.cases if c.question.gold]
    if ask is None and len(known) < len(cases.cases):
        raise InputError("some questions have no labels: name a model with --label-with, or add 'labels'")
    for reason, n in Counter(bad.reason for bad in (*cases.bad, *cases.noted)).items():
        say(console, f"left out, {n} times: {reason}", "yellow")
    written = write_labels(known, path)
    say(console, f"labels of {len(known)} questions are in {written}: correct them there, or in {path.name}.html")
    return known


def elsewhere(engine: o.Engine, workers: int | None) -> Each:
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
    return loaded.questions


def _report(console: Console, fitted: Fitted, out: Path) -> None:
    if fitted.probe is not None:
        show(console, _layers(fitted.probe), "The probe: relevant passages kept, on questions not fitted on")
    show(console, fitted.verdict.rows())
    weights = ", ".join(f"{n} {w:.2f}" for n, w in zip(fitted.stack.names, fitted.stack.weight, strict=True))
    risks = ", ".join(f"{100 * r:g} %" for r in sorted(fitted.scale.margins))
    for line in (
        f"weights: {weights}",
        str(fitted.verdict),
        f"keep='auto' is calibrated on {fitted.scale.questions} questions, for losing at most: {risks}",
        f"saved to {out}; use it: rag-denoise run --denoiser {out}, or load_denoiser({str(out)!r})",
    ):
        say(console, line)


def _layers(probe: ProbeFit) -> list[list[str]]:
    chosen = probe.probe.reading.layer
    fits = [(f"{f.layer} (chosen)" if f.layer == chosen else str(f.layer), f) for f in probe.layers]
    cuts = list(probe.layers[0].recall)
    return [["layer", *cuts], *([name, *(f"{f.recall[c].mean():.2f}" for c in cuts)] for name, f in fits)]
