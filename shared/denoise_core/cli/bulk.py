"""``rag-denoise bulk``: many rows of questions or documents, on many processes or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from denoise_core.cli.options import Engine, Keep, Workers, app
from denoise_core.cli.run import denoiser_for, fitted
from denoise_core.cli.terminal import say
from denoise_core.service.bulk import bulk


@app.command("bulk")
def bulk_own(
    source: Annotated[Path, typer.Argument(help="A .jsonl or .parquet file, or a folder of them.")],
    out: Annotated[Path, typer.Argument(help="The .jsonl or .parquet file to write.")],
    denoiser: Annotated[
        str, typer.Option(help="end, bm25, embedding, or a folder that 'rag-denoise fit' wrote.")
    ] = "end",
    keep: Keep = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="What rows with a 'text' and no question are to answer.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Processes of this machine, or actors of a Ray cluster.")] = (
        "process"
    ),
    workers: Workers = None,
    seconds: Annotated[float, typer.Option(min=0.001, help="What a row may take, before it is a bad one.")] = 300,
) -> None:
    """Denoise many rows: {'id': ..., 'query': ..., 'passages': [...]} or, with --query, {'id': ..., 'text': ...}.

    Writes exactly one row for each id. Killed at any moment, the same command goes on where it was. Rows that
    cannot be denoised go to OUT.bad.jsonl with the reason, and the command ends with 1.
    """
    aside = Console(stderr=True, highlight=False)
    own = denoiser not in ("end", "bm25", "embedding")
    chosen = fitted(Path(denoiser), keep) if own else denoiser_for(denoiser, keep)

    job = f"{denoiser}, keep {keep}"
    with Progress(console=aside) as bar:
        line = bar.add_task("rows", total=None)
        done = bulk(
            source, out, chosen, query=query, engine=engine, workers=workers, seconds=seconds, job=job,
            progress=lambda rows, total: bar.update(line, completed=rows, total=total),
        )  # fmt: skip
    say(aside, f"{done.rows:,} rows in {out}; {done.known:,} were known from before")
    if done.bad:
        say(aside, f"{done.bad:,} bad rows, with reasons, in {out}.bad.jsonl", "yellow")
        raise typer.Exit(1)
