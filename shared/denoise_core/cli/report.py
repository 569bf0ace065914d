"""``rag-denoise report``: what shadow mode counted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from denoise_core.cli.options import app
from denoise_core.cli.read import read_lines
from denoise_core.cli.terminal import print_line
from denoise_core.errors import InputError
from denoise_core.shadow import ShadowRequest, summarize_requests


@app.command("report")
def report_command(
    file: Annotated[
        Path, typer.Argument(help="The JSON lines that shadow mode wrote.")
    ],
) -> None:
    """Print what shadow mode counted: tokens, and the requests whose answers rest on dropped text."""
    requests = []
    for number, line in read_lines(file):
        try:
            shadow_request = ShadowRequest.from_json(line)
            requests.append(shadow_request)
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
    summary = summarize_requests(requests)
    losses = summary.pop("losses")
    console = Console(highlight=False)
    for name, count in summary.items():
        label = name.replace("_", " ")
        print_line(console, f"{label}: {count:,}")
    print_line(console, f"answers that rest on what would be left out: {len(losses):,}")
    for request_id, counts in losses.items():
        kinds = [f"{count} {kind}" for kind, count in counts.items()]
        loss_kinds = ", ".join(kinds)
        print_line(console, f"  {request_id}: {loss_kinds}")
