"""The verbs of ``rag-denoise`` that measure and fit, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from denoise_core.cli.choices import Engine, Right, Workers
from denoise_core.errors import InputError

MOVED = "the papers' protocols are in the laboratory: pip install rag-denoise-lab, then {}"

measuring = typer.Typer()


@measuring.command()
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


@measuring.command()
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


@measuring.command("noisy-retrieval", hidden=True, context_settings={"ignore_unknown_options": True})
def noisy_retrieval(rest: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Moved to the laboratory."""
    raise InputError(MOVED.format("rag-denoise-lab noisy-retrieval"))
