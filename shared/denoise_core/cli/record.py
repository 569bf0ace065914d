"""``rag-denoise record``: a model's replies to prompts, replayed by `RecordedLLM`."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from denoise_core._files import write_whole
from denoise_core.cli.options import app
from denoise_core.cli.read import read_lines
from denoise_core.cli.terminal import print_line
from denoise_core.errors import DenoiseError, InputError, is_auth_refusal
from denoise_core.evaluate.comparison import ReplyLog
from denoise_core.evaluate.comparison.answering import llm_from_name
from denoise_core.testing import RecordedLLM
from denoise_core.types import Message

MAX_TOKENS = 2048  # of a recorded reply


@app.command("record")
def record_command(
    prompts: Annotated[
        Path,
        typer.Argument(help="JSON lines with 'messages'; other fields are copied."),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="The JSON lines to write: 'prompt', 'reply', 'model', 'date'."
        ),
    ],
    llm: Annotated[
        str,
        typer.Option(
            help="The chat model: http://host:port/v1#name, or a folder or hub name."
        ),
    ],
) -> None:
    """Record a model's replies to prompts, so that tests and examples replay them without the model.

    denoise_core.testing.RecordedLLM replays OUT, and collects the prompts that OUT does not have. An interrupted
    run continues with the same command: OUT.calls has every reply. Ends with 1 when a call failed.
    """
    console = Console(stderr=True, highlight=False)
    model = llm_from_name(llm, max_tokens=MAX_TOKENS)
    calls_path = f"{out}.calls"
    reply_log = ReplyLog(model, llm, calls_path, max_tokens=MAX_TOKENS)
    prompt_rows = track(
        _read_prompts(prompts), "asking", console=console, transient=True
    )
    output_lines = []
    failed_prompts = []
    for prompt_number, prompt_row in enumerate(prompt_rows, 1):
        messages = prompt_row.pop("messages")
        try:
            reply_text = reply_log.complete(messages).text
        except Exception as error:  # its text may contain the user's
            if isinstance(error, DenoiseError) or is_auth_refusal(error):
                raise  # it is lasting; the replies so far are in the file of calls
            class_name = type(error).__name__
            failed_prompts.append(f"prompt {prompt_number}: {class_name}")
            continue
        prompt_row["model"] = llm
        prompt_row["date"] = str(datetime.date.today())
        prompt_row["prompt"] = RecordedLLM.key(messages)
        prompt_row["reply"] = reply_text
        output_lines.append(json.dumps(prompt_row, ensure_ascii=False) + "\n")
    write_whole(out, "".join(output_lines))
    print_line(
        console,
        f"{len(output_lines):,} replies in {out}; {reply_log.call_count:,} calls were "
        "made now",
    )
    if failed_prompts:
        print_line(
            console,
            f"{len(failed_prompts):,} failed, the first {failed_prompts[0]}; the same command asks "
            "them again",
            "yellow",
        )
        raise typer.Exit(1)


def _read_prompts(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each with its ``messages`` as the core's.

    Raises:
        InputError: A line has no messages.
    """
    prompt_rows = []
    for prompt_number, json_line in read_lines(path):
        try:
            prompt_row = json.loads(json_line)
            messages = [
                Message(m["role"], m["content"]) for m in prompt_row["messages"]
            ]
            prompt_rows.append({**prompt_row, "messages": messages})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{path}, line {prompt_number}: expected "
                '{"messages": [{"role": "user", "content": "..."}]}'
            ) from error
    return prompt_rows
