"""``rag-denoise record``: a model's replies to prompts, for `denoise_core.testing.RecordedLLM` to replay."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from denoise_core._files import write_whole
from denoise_core.cli.evaluate import open_ledger, show_plan
from denoise_core.cli.options import BudgetOption, DryRunOption, PriceOption, app
from denoise_core.cli.terminal import print_line
from denoise_core.errors import DenoiseError, InputError, is_auth_refusal
from denoise_core.testing import RecordedLLM
from denoise_core.types import Message


@app.command("record")
def record_command(
    prompts: Annotated[
        Path, typer.Argument(help="JSON lines with 'messages'; other fields stay.")
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="The JSON lines to write: 'prompt', 'reply', 'model', 'date'."
        ),
    ],
    llm: Annotated[
        str, typer.Option(help="http://host:port/v1#name; or a folder or hub name.")
    ],
    longest: Annotated[
        int, typer.Option(min=1, help="Tokens of a reply, at most.")
    ] = 2048,
    budget: BudgetOption = None,
    price: PriceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Record a model's replies to prompts, so that tests and examples replay them without the model.

    denoise_core.testing.RecordedLLM replays OUT, and collects the prompts that OUT does not have. Stopped at any
    moment, the same command goes on where it was: OUT.calls has every reply. Ends with 1 when a call failed.
    """
    aside = Console(stderr=True, highlight=False)
    ledger = open_ledger(llm, Path(f"{out}.calls"), budget, price, dry_run, longest)
    written, failed = [], []
    for number, row in enumerate(
        track(_rows(prompts), "asking", console=aside, transient=True), 1
    ):
        messages = row.pop("messages")
        try:
            reply = ledger.complete(messages).text
        except Exception as error:  # its text may be the user's
            if isinstance(error, DenoiseError) or is_auth_refusal(error):
                raise
            failed.append(f"prompt {number}: {type(error).__name__}")
            continue
        made = {
            "model": llm,
            "date": f"{datetime.date.today()}",
            "prompt": RecordedLLM.key(messages),
        }
        written.append(
            json.dumps({**row, **made, "reply": reply}, ensure_ascii=False) + "\n"
        )
    if dry_run:
        return show_plan(Console(highlight=False), ledger)
    write_whole(out, "".join(written))
    print_line(
        aside,
        f"{len(written):,} replies in {out}; {ledger.call_count:,} calls were made now",
    )
    if failed:
        print_line(
            aside,
            f"{len(failed):,} failed, the first {failed[0]}; the same command asks them again",
            "yellow",
        )
        raise typer.Exit(1)


def _rows(path: Path) -> list[dict[str, Any]]:
    """What each line says, its ``messages`` read. Raises `InputError` for a line without."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            found.append(
                row
                | {
                    "messages": [
                        Message(m["role"], m["content"]) for m in row["messages"]
                    ]
                }
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"""{path}, line {number}: expected {{"messages": [{{"role": "user", "content": "..."}}]}}"""
            ) from error
    return found
