"""``rag-denoise bulk``: many rows of questions or documents, on many processes or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from denoise_core.cli.options import Keep, Method, app
from denoise_core.cli.run import denoiser_for
from denoise_core.cli.terminal import progress, say
from denoise_core.service.bulk import bulk


@app.command("bulk")
def bulk_own(
    source: Annotated[Path, typer.Argument(help="A .jsonl or .parquet file, or a folder of them.")],
    out: Annotated[Path, typer.Argument(help="The .jsonl or .parquet file to write.")],
    denoiser: Method = "end",
    keep: Keep = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="What rows with a 'text' and no question are to answer.")
    ] = None,
    engine: Annotated[
        Literal["process", "ray"], typer.Option(help="Processes of this machine, or actors of a Ray cluster.")
    ] = "process",
    workers: Annotated[int | None, typer.Option(min=1, help="How many compute; all cores, unless given.")] = None,
    seconds: Annotated[float, typer.Option(min=0.001, help="What a row may take, before it is a bad one.")] = 300,
) -> None:
    """Denoise many rows: {'id': ..., 'query': ..., 'passages': [...]} or, with --query, {'id': ..., 'text': ...}.

    Writes exactly one row for each id. Killed at any moment, the same command goes on where it was. Rows that
    cannot be denoised go to OUT.bad.jsonl with the reason, and the command ends with 1.
    """
    aside, chosen = Console(stderr=True, highlight=False), denoiser_for(denoiser, keep)
    how: dict[str, Any] = {"engine": engine, "workers": workers, "seconds": seconds}
    with progress(aside, "rows") as hear:
        done = bulk(source, out, chosen, query=query, job=f"{denoiser}, keep {keep}", progress=hear, **how)
    say(aside, f"{done.rows:,} rows in {out}; {done.known:,} were known from before")
    if done.bad:
        say(aside, f"{done.bad:,} bad rows, with reasons, in {out}.bad.jsonl", "yellow")
        raise typer.Exit(1)
