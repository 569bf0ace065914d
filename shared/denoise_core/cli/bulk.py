"""``rag-denoise bulk``: many rows of questions or documents, on many processes or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer
from rich.console import Console
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.cli.run import denoiser_for, fitted
from denoise_core.service.bulk import Progress, bulk


def bulk_own(
    source: Path,
    out: Path,
    denoiser: str,
    *,
    keep: str | None,
    query: str | None,
    engine: Literal["process", "ray"],
    workers: int | None,
    seconds: float,
) -> None:
    """Denoise, with a line of progress a second on standard error. Ends with 1 where a row was bad."""
    aside = Console(stderr=True, highlight=False)
    methods = ("end", "bm25", "embedding")
    if denoiser in methods:
        chosen = denoiser_for(denoiser, keep, None, "auto")
    else:
        chosen = fitted(Path(denoiser), keep, None)

    def tell(found: Progress) -> None:
        left = "" if found.left is None else f", {found.left:,.0f} s left"
        line = f"{found.done:,} rows, {found.bad:,} bad, {100 * found.share:.0f} %, {found.rate:,.0f} a second"
        aside.print(Text(line + left, style="dim"))

    job = f"{denoiser}, keep {keep}"
    done = bulk(
        source, out, chosen, query=query, engine=engine, workers=workers, seconds=seconds, job=job, progress=tell
    )
    aside.print(Text(plain(f"{done.rows:,} rows in {out}; {done.known:,} were known from before")))
    if done.bad:
        aside.print(Text(plain(f"{done.bad:,} bad rows, with reasons, in {out}.bad.jsonl"), style="yellow"))
        raise typer.Exit(1)
