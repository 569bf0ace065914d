"""``rag-denoise fit``: a denoiser of the user's own, from labelled passages."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.cli.run import keep_of
from denoise_core.embedded.fitted import Fitted, check_out, fit_denoiser
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import read_questions
from denoise_core.service.bulk.spread import Spread


def fit_own(
    data: Path,
    out: Path,
    *,
    model: str | None,
    layer: int | None,
    keep: str | None,
    skip_bad: bool,
    engine: str | None = None,
    workers: int | None = None,
) -> None:
    """Read, fit, judge, save. The folder appears whole or not at all."""
    console = Console(stderr=True)
    check_out(out)
    if layer is not None and model is None:
        raise InputError("--layer is a layer of --model: give both, or neither")
    if workers is not None and engine is None:
        raise InputError("--workers says how many read side by side: give --engine process or ray too")
    loaded = read_questions(data, skip_bad=skip_bad)
    for bad in loaded.bad:
        console.print(Text(plain(f"left out: {data}, record {bad.place}: {bad.reason}"), style="yellow"))
    if not loaded.questions:
        raise InputError(f"{data} holds no labelled question; rag-denoise fit --help shows what a line looks like")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        reading = progress.add_task("reading", total=len(loaded.questions))
        fitted = fit_denoiser(
            loaded.questions,
            model,
            keep="auto" if keep is None else keep_of(keep),
            layers=None if layer is None else [layer],
            progress=lambda done, _: progress.update(reading, completed=done),
            each=map if engine is None else Spread(engine, workers),
        )
    fitted.save(out)
    _report(Console(), fitted, out)


def _report(console: Console, fitted: Fitted, out: Path) -> None:
    if fitted.probe is not None:
        console.print(_layers(fitted))
    table = Table(title=f"Relevant passages kept, {fitted.verdict.share:.0%} of all kept", title_justify="left")
    table.add_column("scorer")
    table.add_column("kept", justify="right")
    for name, kept in fitted.verdict.kept.items():
        table.add_row(name, f"{kept:.3f}")
    console.print(table)
    weights = ", ".join(f"{n} {w:.2f}" for n, w in zip(fitted.stack.names, fitted.stack.weight, strict=True))
    console.print(Text(f"weights: {weights}"), soft_wrap=True)
    console.print(Text(str(fitted.verdict)), soft_wrap=True)
    console.print(
        Text(plain(f"saved to {out}; use it: rag-denoise run --denoiser {out}, or load_denoiser({str(out)!r})")),
        soft_wrap=True,
    )


def _layers(fitted: Fitted) -> Table:
    assert fitted.probe is not None
    chosen = fitted.probe.probe.reading.layer
    table = Table(title="The probe: relevant passages kept, on questions not fitted on", title_justify="left")
    table.add_column("layer", justify="right")
    cuts = list(fitted.probe.layers[0].recall)
    for cut in cuts:
        table.add_column(cut, justify="right")
    rows = [(f"{f.layer} (chosen)" if f.layer == chosen else str(f.layer), f) for f in fitted.probe.layers]
    rows += [(f"{chosen}, {name}", f) for name, f in fitted.probe.controls.items()]
    for name, fit in rows:
        table.add_row(name, *(f"{fit.recall[cut].mean():.2f}" for cut in cuts))
    return table
