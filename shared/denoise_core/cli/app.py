"""The verbs of ``rag-denoise`` and their options; each does its work in a module of its own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from denoise_core.errors import InputError


class Method(StrEnum):
    """How passages are scored or selected."""

    end = "end"
    s2a_select = "s2a-select"
    bm25 = "bm25"
    embedding = "embedding"


class Shape(StrEnum):
    """What ``run`` prints."""

    view = "view"
    text = "text"
    json = "json"
    html = "html"


class Right(StrEnum):
    """When an answer is right."""

    contains = "contains"
    exact = "exact"
    judge = "judge"


class Engine(StrEnum):
    """Where bulk work runs."""

    process = "process"
    ray = "ray"


Workers = Annotated[int | None, typer.Option(min=1, help="How many compute; all cores, unless given.")]


MOVED = "the papers' protocols are in the laboratory: pip install rag-denoise-lab, then {}"

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
            help="A file (text, Markdown, HTML, CSV, JSON, log, PDF, docx), a folder, or - for standard input; "
            "again for more. Records with a 'text' are a passage each.",
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
    why: Annotated[
        bool, typer.Option("--why", help="Say of each piece its score, and why it stayed or went.")
    ] = False,
) -> None:
    """Denoise your own text: print what is kept for the question, and what is dropped.

    The first line says what was done, on standard error in a pipe, which gets the kept text alone. Ends with
    status 3 when nothing was denoised, and 4 when nothing seems to bear on the question.

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
        why=why,
    )


@app.command()
def check(
    answer: Annotated[
        str, typer.Option("--answer", "-a", help="A file with the answer, or - for standard input.")
    ],
    passages: Annotated[
        list[str], typer.Option("--passages", "-p", help="What it is held against, as for 'run'; again for more.")
    ],
    query: Annotated[
        str, typer.Option("--query", "-q", help="The question that was asked, if there was one.")
    ] = "",
    judge: Annotated[
        str | None,
        typer.Option(
            help="A Hugging Face model that judges, by name or folder: LettuceDetect, MiniCheck, HHEM ..."
        ),
    ] = None,
    llm: Annotated[
        str | None, typer.Option(help="A Hugging Face chat model that judges by quotes, by name or folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the proof.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page where a claim lights up its quote.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines and files that cannot be read, and say so.")
    ] = False,
) -> None:
    """Hold an answer against your own text: each claim with its verdict and its quote, by file and line.

    Ends with status 0 when the passages support it, 3 when they do not, and 4 when that cannot be said. Without
    --judge the judge that ships decides, which reads English.

    [bold]Example[/bold]

    rag-denoise check -q "when was it built?" -a answer.md -p docs/ --html proof.html
    """
    from denoise_core.cli.check import check_own

    check_own(
        query,
        answer,
        passages,
        judge=judge,
        llm=llm,
        shape="json" if as_json else "text",
        html=html,
        skip_bad=skip_bad,
    )


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Serve denoising over HTTP, in the shapes that rerank clients speak; 'serve --help' has the settings.

    POST /v1/denoise, /v1/rerank (Jina, Cohere, vLLM, text-embeddings-inference) and /v1/check; GET /livez,
    /readyz, /metrics (Prometheus) and /docs (OpenAPI).
    """
    from denoise_core.cli.serve import serve_own

    serve_own(context.args)


@app.command()
def mcp(
    http: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve over HTTP on this port; without, over stdio.")
    ] = None,
    host: Annotated[str, typer.Option(help="127.0.0.1 is for this machine only.")] = "127.0.0.1",
    folder: Annotated[
        list[Path] | None, typer.Option("--folder", help="Files below it may be read; may be given several times.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="As for 'run': 5, 0.3, 30% or auto.")] = None,
    judge: Annotated[str | None, typer.Option(help="As for 'check'.")] = None,
    llm: Annotated[str | None, typer.Option(help="As for 'check'.")] = None,
) -> None:
    """Offer denoising to agents over the Model Context Protocol: denoise, recall and check."""
    from denoise_core.cli.mcp import mcp_own

    mcp_own(http, host, folder or [], keep, judge, llm)


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
    seconds: Annotated[float, typer.Option(min=0.001, help="What a row may take, before it is a bad one.")] = 300,
) -> None:
    """Denoise many rows: {'id': ..., 'query': ..., 'passages': [...]} or, with --query, {'id': ..., 'text': ...}.

    Writes exactly one row for each id. Killed at any moment, the same command goes on where it was. Rows that
    cannot be denoised go to OUT.bad.jsonl with the reason, and the command ends with 1.
    """
    from denoise_core.cli.bulk import bulk_own

    bulk_own(source, out, denoiser, keep=keep, query=query, engine=engine.value, workers=workers, seconds=seconds)


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


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="JSON lines, each {'question': ..., 'passages': [...], 'labels': [...]}; a passage is a text or "
            "an object with 'text', a label is true or 1 for a passage that helps to answer."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the denoiser: weights, scale, probe, card.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Hugging Face model by name or folder to fit a probe on; without it only signals are weighed."
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(min=0, help="Index into hidden_states, 0 = embeddings; chosen if left out."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="What you will keep: a number, a share or auto. Layers are compared there.")
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="Labelled questions apart from DATA, on which --keep auto is calibrated."),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help="The share of relevant passages that --keep auto may lose, such as 0.05."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier fit in --out.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out bad lines, and say so.")] = False,
    engine: Annotated[Engine | None, typer.Option(help="Read with many processes, or on a Ray cluster.")] = None,
    workers: Workers = None,
) -> None:
    """Fit a denoiser on labelled passages of your own, and say in words whether it is better than cosine.

    Prints what it keeps at each share beside the default, cosine, BM25 and a fit that never saw the questions, and
    warns where one of these is as good. The folder is used by: rag-denoise run --denoiser FOLDER, or
    denoise_core.load_denoiser(FOLDER).
    """
    from denoise_core.cli.fit import fit_own

    fit_own(
        data,
        out,
        model=model,
        layer=layer,
        keep=keep,
        skip_bad=skip_bad,
        calibrate=calibrate,
        risk=risk,
        overwrite=overwrite,
        engine=engine,
        workers=workers,
    )


@app.command()
def evaluate(
    questions: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines: a 'question', and any of 'passages' (texts, or objects with 'text'), 'gold' and "
            "'answers'; or recorded runs of the loop, a file or a folder. Without: 40 real questions that ship."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Your own name of a field, such as question=query; may be given several times."),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(help="Search passages in this file or folder; without QUESTIONS, make them of it."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages searched for a question.")] = 20,
    limit: Annotated[int | None, typer.Option("-n", min=1, help="Only the first questions.")] = None,
    llm: Annotated[
        str,
        typer.Option(
            help="Who answers from what is kept: 'none', the embedded reader, offline; http://host:port/v1#name; "
            "or a folder or hub name."
        ),
    ] = "none",
    label_with: Annotated[
        str | None,
        typer.Option(help="A model, named as --llm, that says which passages hold an answer, or makes questions."),
    ] = None,
    s2a: Annotated[list[str] | None, typer.Option(help="Also compare S2A by --llm: select, remove ...")] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Also compare the LLM-Augmenter's loop by --llm.")] = False,
    budget: Annotated[
        float | None, typer.Option(help="Never passed: money where there is a --price, else tokens.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(help="Money for a million tokens, read and written, and read from a cache: 0.15,0.60,0.075"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many calls, tokens and how much money, and make no call.")
    ] = False,
    probe: Annotated[Path | None, typer.Option(help="Also compare END with the probe in this folder.")] = None,
    cross_encoder: Annotated[
        str | None, typer.Option(help="Also compare a cross-encoder, by name or folder.")
    ] = None,
    denoiser: Annotated[
        Path | None, typer.Option(help="Also compare a folder of 'rag-denoise fit', or a denoise.json.")
    ] = None,
    right: Annotated[
        Right,
        typer.Option(help="When an answer is right: it contains an accepted one, is one, or --llm judges so."),
    ] = Right.contains,
    protocol: Annotated[str | None, typer.Option(hidden=True)] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for report.html, results.json and denoise.json.")
    ] = Path("denoise-evaluation"),
) -> None:
    """Does it help on your data? Hold the ways to denoise against each other on your questions.

    Compares everything, the first few passages, BM25, cosine and the default, each with as many tokens as the
    default keeps: how many gold passages they keep, and how many answers from what they keep are right. Prints a
    table, and writes a page, all figures, and the recommended setting for 'rag-denoise run --denoiser' and both
    frameworks.

    [bold]Examples[/bold]

    rag-denoise evaluate

    rag-denoise evaluate questions.jsonl --columns question=query --documents ./notes

    rag-denoise evaluate questions.jsonl --llm http://localhost:8000/v1#my-model --dry-run
    """
    from denoise_core.cli.evaluate import Asked, Model, evaluate_own

    if protocol is not None:
        raise InputError(MOVED.format(f"rag-denoise-lab protocol {protocol}"))
    asked = Asked(columns or [], documents, k, limit, probe, cross_encoder, denoiser, right.value)
    evaluate_own(questions, out, asked, Model(llm, s2a or [], loop, budget, price, dry_run, label_with))


@app.command("noisy-retrieval", hidden=True, context_settings={"ignore_unknown_options": True})
def noisy_retrieval(rest: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Moved to the laboratory."""
    raise InputError(MOVED.format("rag-denoise-lab noisy-retrieval"))
