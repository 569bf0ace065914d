"""The verbs of ``rag-denoise`` and their options; each does its work in a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from denoise_core.cli.choices import Engine, Method, Shape, Workers
from denoise_core.cli.measure import measuring

app = typer.Typer(
    help="Takes the noise out of passages before a language model reads them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="Where the page with kept and dropped text is written.")] = Path(
        "denoise-demo.html"
    ),
    questions: Annotated[int, typer.Option(min=1, help="How many of the 40 questions to run.")] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and compare with BM25 and embedding cosine.

    Prints for every question what was kept and whether the passage with the answer survived, then a table. Then
    a right and a wrong answer to each question are held against its passages: how many right ones pass, how many
    wrong ones are stopped. Writes a page that shows dropped text struck through, with scores on hover. Runs
    offline.
    """
    from denoise_core.cli.demo import run_demo

    run_demo(html, questions=questions)


@app.command()
def run(
    query: Annotated[str, typer.Option("--query", "-q", help="The question the passages are to answer.")],
    passages: Annotated[
        list[str],
        typer.Option(
            "--passages",
            "-p",
            help="A .jsonl file (a 'text' a line, optionally 'id' and 'title'), text, Markdown, HTML, PDF, docx, "
            "a folder of them, or - for standard input; may be given several times.",
        ),
    ],
    method: Annotated[Method, typer.Option(help="How to denoise; 'end' is the embedded default.")] = Method.end,
    keep: Annotated[
        str | None,
        typer.Option(
            help="How many chunks to keep, such as 5, which share, such as 0.3 or 30%, or auto: as many as the "
            "scores justify, which is the default of --method end."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="For s2a-select: a Hugging Face chat model, by name or folder.")
    ] = None,
    denoiser: Annotated[
        Path | None,
        typer.Option(
            help="A folder that 'rag-denoise fit' wrote, or the denoise.json of 'rag-denoise evaluate', instead "
            "of --method."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Keep the best, at most so many tokens, instead of --keep.")
    ] = None,
    shape: Annotated[
        Shape | None,
        typer.Option(
            "--format", help="A view with what was dropped (on a terminal), the kept text alone (in a pipe) ..."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines and files that cannot be read, and say so.")
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question, and what is dropped.

    In a pipe the kept text alone, unwrapped. Ends with status 3 when nothing was denoised, and 4 when nothing
    seems to bear on the question.

    [bold]Examples[/bold]

    rag-denoise run -q "who wrote the report?" -p notes.md

    cat passages.jsonl | rag-denoise run -q "who wrote the report?" -p - --keep 5 --json
    """
    from denoise_core.cli.run import run_own

    run_own(
        query,
        passages,
        method.value,
        keep=keep,
        model=model,
        denoiser=denoiser,
        tokens=tokens,
        shape="json" if as_json else None if shape is None else shape.value,
        skip_bad=skip_bad,
    )


@app.command()
def serve(
    method: Annotated[Method, typer.Option(help="How to denoise; 'end' is the embedded default.")] = Method.end,
    keep: Annotated[str | None, typer.Option(help="As for 'run': 5, 0.3, 30% or auto.")] = None,
    denoiser: Annotated[
        Path | None, typer.Option(help="A folder that 'rag-denoise fit' wrote, instead of --method.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="127.0.0.1 is for this machine only.")] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A name that clients may call the service by, '*' for any; again for more."),
    ] = None,
    token_env: Annotated[
        str | None, typer.Option(help="The environment variable with the token that requests must bring.")
    ] = None,
    workers: Workers = None,
) -> None:
    """Serve denoising over HTTP, in the shapes that rerank clients speak. Nothing leaves the machine.

    POST /v1/denoise, /v1/rerank (Jina, Cohere, vLLM, text-embeddings-inference) and /v1/check; GET /healthz,
    /metrics (Prometheus) and /docs (OpenAPI). Requests that wait together are worked on together.

    [bold]Example[/bold]

    rag-denoise serve --port 8080

    curl localhost:8080/v1/rerank --json '{"query": "who wrote it?", "documents": ["A clerk did.", "Rain."]}'
    """
    from denoise_core.cli.serve import serve_own

    serve_own(
        denoiser, method.value, keep, host=host, port=port, names=name or [], token=token_env, workers=workers
    )


@app.command()
def bulk(
    source: Annotated[Path, typer.Argument(help="A .jsonl or .parquet file, or a folder of them.")],
    out: Annotated[Path, typer.Argument(help="The .jsonl or .parquet file to write.")],
    denoiser: Annotated[
        str, typer.Option(help="end, bm25, embedding, or a folder that 'rag-denoise fit' wrote.")
    ] = "end",
    keep: Annotated[str | None, typer.Option(help="As for 'run': 5, 0.3, 30% or auto.")] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="What rows with a 'text' and no question are to answer.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Processes of this machine, or actors of a Ray cluster.")] = (
        Engine.process
    ),
    workers: Workers = None,
) -> None:
    """Denoise many rows: {'id': ..., 'query': ..., 'passages': [...]} or, with --query, {'id': ..., 'text': ...}.

    Writes exactly one row for each id. Killed at any moment, the same command goes on where it was. Rows that
    cannot be denoised go to OUT.bad.jsonl with the reason.
    """
    from denoise_core.cli.bulk import bulk_own

    bulk_own(source, out, denoiser, keep=keep, query=query, engine=engine.value, workers=workers)


def _print_version(wanted: bool) -> None:
    if wanted:
        from denoise_core import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop.")
    ] = False,
) -> None: ...


app.add_typer(measuring)
