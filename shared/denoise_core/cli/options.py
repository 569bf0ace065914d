"""The command ``rag-denoise`` and the options that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def make_command(description: str) -> typer.Typer:
    """Return a command without verbs."""
    return typer.Typer(
        help=description,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = make_command(
    "Takes the noise out of passages before a language model reads them."
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from denoise_core import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None: ...


QueryOption = Annotated[
    str,
    typer.Option("--query", "-q", help="The question that the passages are to answer."),
]
_SOURCES_HELP = (
    "A file (text, Markdown, HTML, CSV, JSON, log, PDF, docx), a folder, or - for standard input; again for more. "
    "Records with a 'text' are a passage each."
)
PassagesOption = Annotated[
    list[str], typer.Option("--passages", "-p", help=_SOURCES_HELP)
]
_METHODS_HELP = (
    "end (the embedded default), bm25, embedding, a folder of 'rag-denoise fit' or "
    "a denoise.json of 'evaluate'."
)
MethodOption = Annotated[
    str, typer.Option("--denoiser", "--method", help=_METHODS_HELP)
]
_AMOUNT_HELP = (
    "How many chunks to keep, such as 5, which share, such as 0.3 or 30%, or auto: "
    "as many as the scores justify."
)
KeepOption = Annotated[str | None, typer.Option(help=_AMOUNT_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and say so.")
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--llm", help="A chat model that judges: name, folder or http://host/v1#name."
    ),
]
LLMOption = Annotated[
    str | None,
    typer.Option(
        help="A chat model: http://host:port/v1#name, or a folder or hub name."
    ),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(help="Your name of a field: question=query; again for more."),
]
GradingOption = Annotated[
    Literal["contains", "exact", "judge"],
    typer.Option(
        "--right",
        help="When an answer is right: it contains an accepted one, is one, or --llm judges so.",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(help="Never passed: money where there is a --price, else tokens."),
]
_PRICES_HELP = (
    "Money for a million tokens, read and written, and read from a cache: "
    "0.15,0.60,0.075"
)
PriceOption = Annotated[str | None, typer.Option(help=_PRICES_HELP)]
DocumentsOption = Annotated[
    Path | None,
    typer.Option(help="A file or folder to search passages in for the questions."),
]
TopKOption = Annotated[
    int, typer.Option("-k", min=1, help="Passages searched for a question.")
]
LimitOption = Annotated[
    int | None, typer.Option("-n", min=1, help="Only the first questions.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label-with", help="A model that labels: http://host:port/v1#name ..."
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say how many calls, tokens, how much money; make none."
    ),
]
