"""``rag-denoise report``: what shadow mode counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from denoise_core.cli.options import JsonOption, app
from denoise_core.cli.read import read_lines
from denoise_core.cli.terminal import print_line
from denoise_core.errors import InputError
from denoise_core.shadow import ShadowRequest, summarize_requests


@app.command("report")
def report_command(
    file: Annotated[
        Path, typer.Argument(help="The JSON lines that shadow mode wrote.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Print what shadow mode counted: tokens, and the requests whose answers rest on dropped text."""
    requests = []
    for number, line in read_lines(file):
        try:
            requests.append(ShadowRequest.from_json(line))
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
    summary = summarize_requests(requests)
    left_out = summary["tokens"] - summary["kept_tokens"]
    console = Console(highlight=False)
    if as_json:
        print_line(console, json.dumps(summary, ensure_ascii=False))
        return
    left_out_fraction = left_out / max(summary["tokens"], 1)
    print_line(
        console,
        f"{summary['requests']:,} requests, {summary['answered']:,} with an answer; "
        f"{summary['calls']:,} calls, {summary['failures']:,} failed",
    )
    print_line(
        console,
        f"{left_out:,} of about {summary['tokens']:,} tokens would be left out "
        f"({left_out_fraction:.0%}), and {summary['dropped']:,} of {summary['passages']:,} passages",
    )
    losses = summary["losses"]
    print_line(console, f"{len(losses):,} answers rest on what would be left out")
    for request_id, counts in losses.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print_line(console, f"  {request_id}: {kinds}")
