"""``rag-denoise evaluate``: the ways to denoise, held against each other on the user's own questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from denoise_core._files import write_whole
from denoise_core.cli import options as o
from denoise_core.cli.options import app
from denoise_core.cli.read import read_passages
from denoise_core.cli.terminal import say, show
from denoise_core.embedded.sample import sample
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import Cases, case_of_question
from denoise_core.evaluate.trial import EmbeddedReader, Ledger, LLMAnswerer, Way, evaluate, read_cases
from denoise_core.evaluate.trial.answering import LONGEST, LLMJudge, LoopAnswerer, llm_of
from denoise_core.evaluate.trial.cases import QUESTIONS, labelled_by, made_from, searching
from denoise_core.evaluate.trial.evaluation import rows_of, told
from denoise_core.evaluate.trial.setting import FILE, SAME, probe_scorer, read_setting
from denoise_core.running.budget import Price

PAGE, RESULTS, ANSWERS, LABELS = "report.html", "results.json", "answers.jsonl", "labels.jsonl"


@dataclass(frozen=True, slots=True)
class Model:
    """The options about the model that answers."""

    llm: str = "none"
    s2a: Sequence[str] = ()
    loop: bool = False
    budget: float | None = None
    price: str | None = None
    dry_run: bool = False
    label_with: str | None = None


@app.command("evaluate")
def evaluate_own(
    questions: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines: a 'question', and any of 'passages' (texts, or objects with 'text'), 'gold' and "
            "'answers'. Without: made of --documents, or 40 real questions that ship."
        ),
    ] = None,
    columns: o.Columns = None,
    documents: o.Documents = None,
    k: o.Searched = 20,
    limit: o.Limit = None,
    llm: Annotated[
        str,
        typer.Option(
            help="Who answers from what is kept: 'none', the embedded reader, offline; http://host:port/v1#name; "
            "or a folder or hub name."
        ),
    ] = "none",
    label_with: o.ModelThatLabels = None,
    s2a: Annotated[list[str] | None, typer.Option(help="Also compare S2A by --llm: select, remove ...")] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Also compare the LLM-Augmenter's loop by --llm.")] = False,
    budget: o.Budget = None,
    price: o.Prices = None,
    dry_run: o.DryRun = False,
    probe: Annotated[Path | None, typer.Option(help="Also compare END with the probe in this folder.")] = None,
    cross_encoder: Annotated[
        str | None, typer.Option(help="Also compare a cross-encoder, by name or folder.")
    ] = None,
    denoiser: Annotated[
        Path | None, typer.Option(help="Also compare a folder of 'rag-denoise fit', or a denoise.json.")
    ] = None,
    right: o.Right = "contains",
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
    model = Model(llm, s2a or [], loop, budget, price, dry_run, label_with)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, or a name that is free")
    aside = Console(stderr=True)
    paid = price_of(price)
    ledger = ledger_of(model, out / ANSWERS, paid, needed="--right judge" if right == "judge" else None)
    labels = _labels(model, ledger, out / LABELS, paid)
    ways = [*_ways(probe, cross_encoder, denoiser, local_of(model)), *_ways_of(model, ledger)]
    with Progress(console=aside, transient=True) as bar:
        task = bar.add_task("reading documents", total=None, visible=documents is not None)
        hear = partial(bar.update, task)
        given = aside, questions, documents, columns_of(columns or []), k, limit, labels
        cases = cases_of_file(*given, lambda done, of: hear(completed=done, total=of))
        if labels is not None and model.label_with is not None:
            task = bar.add_task("labelling", total=len(cases.cases))
            hear = partial(bar.update, task)
            cases = labelled_by(cases, labels, model.label_with, progress=lambda done, of: hear(completed=done))
    if labels is not None and labels is not ledger and ledger is not None and model.budget is not None:
        ledger.budget = max(0.0, model.budget - labels.spent)
    for bad in cases.bad[:10]:
        say(aside, f"left out: line {bad.place}: {bad.reason}", "yellow")
    with Progress(console=aside, transient=True) as bar:
        task = bar.add_task("comparing", total=None)
        found = evaluate(
            cases,
            {w.name: w for w in ways},
            answerer=EmbeddedReader() if ledger is None else LLMAnswerer(ledger, model.llm),
            llm=ledger,
            price=paid,
            right="exact" if right == "exact" else LLMJudge(ledger) if ledger and right == "judge" else "contains",
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if model.dry_run:
        for each in {id(one): one for one in (labels, ledger) if one is not None}.values():
            plan(Console(highlight=False), each)
        return
    console = Console(highlight=False)
    show(console, rows_of(found, short=True))
    for line in told(found):
        say(console, line)
    out.mkdir(parents=True, exist_ok=True)
    found.save_page(out / PAGE)
    record = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(out / RESULTS, record + "\n")
    found.save_setting(out / FILE)
    say(aside, f"\nwritten to {out}: {PAGE}, {RESULTS}, {FILE}")
    say(aside, f"use it: rag-denoise run --denoiser {out / FILE} -q ... -p ...")


def plan(console: Console, ledger: Ledger, dry: bool = True) -> None:
    """What the run would cost beside what is paid for already."""
    planned = ledger.planned
    money = "" if ledger.price is None else f", {ledger.price.of(planned):.4f} in money"
    console.print(
        f"about {ledger.planned_calls:,} calls, {planned.input_tokens:,} tokens to read, "
        f"{planned.output_tokens:,} to write{money}{'; no call was made' if dry else ''}",
        soft_wrap=True,
    )


def price_of(given: str | None) -> Price | None:
    """What ``--price`` says. Raises `InputError` for anything else."""
    if given is None:
        return None
    try:
        read, write, *cached = (float(part) for part in given.split(","))
        return Price(read, write, *cached)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"--price {given}: expected READ,WRITTEN or READ,WRITTEN,CACHED a million tokens, such as 0.15,0.60"
        ) from error


def _labels(model: Model, ledger: Ledger | None, path: Path, price: Price | None) -> Ledger | None:
    """The model that labels, within what the one that answers has left of the budget."""
    if model.label_with is None or model.label_with == model.llm:
        return ledger if model.label_with is not None else None
    left = model.budget if ledger is None or model.budget is None else max(0.0, model.budget - ledger.spent)
    return calls_of(model.label_with, path, left, price, model.dry_run)


def ledger_of(
    model: Model, path: Path, price: Price | None, needed: str | None, longest: int = LONGEST
) -> Ledger | None:
    """The model that answers, and every reply at ``path``; ``needed`` is the option that cannot do without."""
    if model.llm != "none":
        return calls_of(model.llm, path, model.budget, price, model.dry_run, longest)
    if needed is not None:
        raise InputError(f"{needed} asks a model: name one with --llm, such as http://localhost:8000/v1#name")
    if model.s2a or model.loop or (model.label_with is None and (model.budget is not None or model.dry_run)):
        raise InputError("--s2a, --loop, --budget and --dry-run are about a model: name one with --llm")
    return None


def calls_of(
    name: str, path: Path, budget: float | None, price: Price | None, dry: bool, longest: int = LONGEST
) -> Ledger:
    """The model of that name, with every reply at ``path``."""
    return Ledger(llm_of(name, longest=longest), name, path, budget=budget, price=price, dry=dry, longest=longest)


def _ways_of(model: Model, ledger: Ledger | None) -> list[Way]:
    """The ways that ask the model."""
    out = [Way(f"S2A {variant}", {"kind": "s2a", "variant": variant}) for variant in model.s2a]
    if model.loop and ledger is not None:
        out.append(Way("loop", {"kind": "everything"}, answerer=LoopAnswerer(ledger, model.llm)))
    return out


def cases_of_file(
    aside: Console,
    questions: Path | None,
    documents: Path | None,
    columns: dict[str, str],
    k: int,
    limit: int | None,
    labels: Ledger | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Cases:
    """The questions of a file, their passages searched for in ``documents``; or made of these, or the sample's."""
    searched = None
    if documents is not None:
        reading = read_passages(str(documents), skip_bad=True)
        searched = reading.passages
        for warning in reading.warnings:
            say(aside, warning, "yellow")
    if questions is None and columns:
        raise InputError("--columns goes with questions of your own: give a file")
    if questions is None and searched is not None:
        return made_from(searched, n=limit or QUESTIONS, k=k, llm=labels, name="the model that labels")
    if questions is None:
        cases = Cases(tuple(case_of_question(q, n) for n, q in enumerate(sample(), 1)))
    else:
        find = None if searched is None else searching(searched, k=k, progress=progress)
        cases = read_cases(questions, columns=columns, find=find)
    return replace(cases, cases=cases.cases[:limit])


def columns_of(given: Sequence[str]) -> dict[str, str]:
    """What ``--columns`` says: the user's own names by ours."""
    out = {}
    for pair in (part for text in given for part in text.split(",")):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or not ours or not theirs:
            raise InputError(f"--columns {pair}: expected OURS=YOURS, such as question=query")
        out[ours] = theirs
    return out


def local_of(model: Model) -> str | None:
    """The model on this machine that answers, which a probe then reads too."""
    return None if model.llm == "none" or model.llm.startswith(("http://", "https://")) else model.llm


def _ways(probe: Path | None, cross_encoder: str | None, denoiser: Path | None, read: str | None) -> list[Way]:
    """What is compared beside the standard ways."""
    out = []
    if probe is not None:
        probe_scorer(probe, read, at_once=True)  # what does not fit is told before any work
        own = {"kind": "probe", "folder": str(probe), "tokens": SAME}
        out.append(Way("END", own if read is None else {**own, "model": read}))
    if cross_encoder is not None:
        out.append(Way("cross-encoder", {"kind": "cross-encoder", "model": cross_encoder, "tokens": SAME}))
    if denoiser is not None:
        own = {"kind": "fitted", "folder": str(denoiser)} if denoiser.is_dir() else read_setting(denoiser)
        out.append(Way("yours", own))
    return out
