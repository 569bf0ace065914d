"""The command ``rag-denoise`` and the options that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from denoise_core._files import check_is_file
from denoise_core.errors import InputError


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
    "Remove what a question does not need from a model's context, and check the answer against the rest."
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
    "A file (text, Markdown, HTML, CSV, JSON, log, PDF, docx), a folder, or - for standard input; repeat it "
    "for more. Each record with a 'text' field is one passage."
)
PassagesOption = Annotated[
    list[str], typer.Option("--passages", "-p", help=_SOURCES_HELP)
]
_METHODS_HELP = (
    "end (the embedded default), bm25, embedding, a folder written by 'rag-denoise fit', or "
    "a denoise.json written by 'rag-denoise evaluate'."
)
MethodOption = Annotated[
    str, typer.Option("--denoiser", "--method", help=_METHODS_HELP)
]
_AMOUNT_HELP = (
    "How many chunks to keep: a number such as 5, a share such as 0.3 or 30%, or auto, "
    "as many as the scores justify."
)
KeepOption = Annotated[str | None, typer.Option(help=_AMOUNT_HELP)]


def _check_page_path(path: Path | None) -> Path | None:
    """Refuse a page that cannot be written before the work for it is done."""
    if path is not None:
        if not path.parent.is_dir():
            raise InputError(f"--html {path}: there is no folder {str(path.parent)!r}")
        check_is_file(path)
    return path


PageOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        callback=_check_page_path,
        help="Also write a page that shows what was found.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
SkipBadOption = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Skip files and records that cannot be read, and name them."
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
    typer.Option(
        help="What your file calls a field, such as question=query; repeat it for more."
    ),
]
GradingOption = Annotated[
    Literal["contains", "exact", "judge"],
    typer.Option(
        "--right",
        help="When an answer counts as right: it contains an accepted one, equals one, or --llm judges it right.",
    ),
]
BudgetOption = Annotated[
    int | None, typer.Option(help="The most tokens to spend, read and written.")
]
DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        help="A file or folder in which passages are searched for each question."
    ),
]
TopKOption = Annotated[
    int,
    typer.Option("-k", min=1, help="How many passages to retrieve for each question."),
]
LimitOption = Annotated[
    int | None, typer.Option("-n", min=1, help="Use only the first so many questions.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label-with",
        help="The model that labels passages: http://host:port/v1#name, or a folder or hub name.",
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the number of calls and of tokens, and make no call.",
    ),
]
