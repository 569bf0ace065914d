"""``rag-denoise fit``: a probe of the user's own, from labelled passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.end.fit import ProbeFit, fit_probe
from denoise_core.end.probe_folder import check_free
from denoise_core.end.reader import HiddenReader
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import read_questions


def fit_own(data: Path, out: Path, *, model: str | None, layer: int | None, skip_bad: bool) -> None:
    """Read, fit, save. The folder appears whole or not at all."""
    console = Console(stderr=True)
    check_free(out)
    loaded = read_questions(data, skip_bad=skip_bad)
    for bad in loaded.bad:
        console.print(Text(plain(f"left out: {data}, record {bad.place}: {bad.reason}"), style="yellow"))
    if not loaded.questions:
        raise InputError(f"{data} holds no labelled question; rag-denoise fit --help shows what a line looks like")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        reading = progress.add_task("reading hidden states", total=len(loaded.questions))
        training = fit_probe(
            _reader(model),
            loaded.questions,
            layers=None if layer is None else [layer],
            card={"source": {"file": data.name}},
            progress=lambda done, _: progress.update(reading, completed=done),
        )
    training.probe.save(out)
    _report(Console(), training, out)


def _reader(model: str | None) -> Any:
    if model is not None:
        return HiddenReader(model)
    from denoise_core.embedded import encoder

    return HiddenReader(encoder().model, tokenizer=encoder().tokenizer)


def _report(console: Console, training: ProbeFit, out: Path) -> None:
    chosen = training.probe.reading.layer
    table = Table(title="Share of the relevant passages kept, on held-out questions", title_justify="left")
    table.add_column("layer", justify="right")
    cuts = list(training.layers[0].recall)
    for cut in cuts:
        table.add_column(cut, justify="right")
    rows = [(f"{f.layer} (chosen)" if f.layer == chosen else str(f.layer), f) for f in training.layers]
    rows += [(f"{chosen}, {name}", f) for name, f in training.controls.items()]
    for name, fit in rows:
        table.add_row(name, *(f"{fit.recall[cut].mean():.2f}" for cut in cuts))
    console.print(table)
    console.print(Text(plain(f"saved to {out} (probe.safetensors, probe.json, README.md)")), soft_wrap=True)
