"""``rag-denoise demo``: 40 real questions denoised, with two answers each checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from denoise_core._files import write_whole
from denoise_core.cli.check import OUTCOME_WORDS
from denoise_core.cli.options import PageOption, app
from denoise_core.cli.terminal import print_line, print_table
from denoise_core.embedded import default_denoiser, shared_encoder
from denoise_core.embedded.sample import sample_answers
from denoise_core.evaluate.metrics import wilson_interval
from denoise_core.question import Question
from denoise_core.report.context import ReportItem, render_page
from denoise_core.result import DenoiseResult
from denoise_core.support.check import check
from denoise_core.support.quoting import VERSION, LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_core.types import Passage

TITLE = "What was kept, what was dropped, what was supported"
LEAD = (
    "Real questions of Natural Questions, 20 Wikipedia passages each, and what the default keeps. Kept text is "
    "plain, dropped text struck through; scores show when the pointer rests on a text. Each question has a right "
    "answer and a wrong one from another passage; a large language model judges both by all twenty passages, by "
)
_COUNT_LABELS = {
    "kept": "answer kept",
    "right": "right answers that pass",
    "wrong": "wrong answers that are stopped",
}


@app.command()
def demo(
    html: PageOption = Path("denoise-demo.html"),
    questions: Annotated[
        int, typer.Option(min=1, help="How many of the 40 questions to run.")
    ] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and check a right and a wrong answer to each.

    Prints for every question what was kept, whether the passage with the answer survived, and the judge's
    verdict on both answers; then how often each was as it should be. The judge asks a large language model, whose
    recorded replies are replayed: nothing is downloaded or sent. Writes a page that shows dropped text struck
    through, with scores on hover. How the default compares with BM25 and cosine on these questions: rag-denoise
    evaluate.
    """
    console = Console(highlight=False)
    demo_samples = sample_answers()[:questions]
    llm, reply_source = load_recorded_llm()
    judge = LLMJudge(llm)
    denoiser = default_denoiser()
    counts = Counter[str]()
    token_counts = Counter[str]()
    report_items: list[ReportItem] = []
    for sample_answer in track(
        demo_samples, "denoising", console=console, transient=True
    ):
        question = sample_answer.question
        passages = question.passages
        denoise_result = denoiser.denoise(question.text, passages)
        answer_outcomes = []
        answer_notes = []
        for kind in ("right", "wrong"):
            answer = getattr(sample_answer, f"{kind}_answer")
            verdict = check(question.text, answer, passages, judge=judge)
            answer_outcomes.append(OUTCOME_WORDS[verdict.outcome])
            answer_notes.append(f"{kind} answer: {answer} ({answer_outcomes[-1]})")
        is_kept = question.gold <= {passage.id for passage in denoise_result.passages}
        counts["kept"] += is_kept
        counts["right"] += answer_outcomes[0] == "supported"
        counts["wrong"] += answer_outcomes[1] != "supported"
        token_counts["before"] += _count_tokens(passages)
        token_counts["after"] += _count_tokens(denoise_result.passages)
        report_items.append(
            ReportItem(passages, denoise_result, question.gold, tuple(answer_notes))
        )
        _print_question(
            console, len(report_items), question, denoise_result, answer_notes
        )
    rows = [["of the questions above", "as it should be", "95 %"]]
    for name, row_label in _COUNT_LABELS.items():
        good_count = counts[name]
        low, high = wilson_interval(good_count, len(report_items))
        good_share = good_count / len(report_items)
        count_text = f"{good_count} of {len(report_items)} ({good_share:.0%})"
        interval_text = f"{low:.0%} to {high:.0%}"
        rows.append([row_label, count_text, interval_text])
    print_table(console, rows)
    print_line(console, f"verdicts of the judge: {reply_source}")
    before = token_counts["before"] / len(report_items)
    after = token_counts["after"] / len(report_items)
    print_line(
        console,
        f"{before:,.0f} tokens a question before, {after:,.0f} after "
        f"({after / before:.0%})",
    )
    page_html = render_page(
        report_items, title=TITLE, lead=f"{LEAD}{reply_source}.", table=rows
    )
    if html is not None:
        write_whole(html, page_html)
        print_line(console, f"the page with every passage: {html.resolve()}")


def _print_question(
    console: Console,
    number: int,
    question: Question,
    result: DenoiseResult,
    answer_notes: Sequence[str],
) -> None:
    kept_ids = {passage.id for passage in result.passages}
    print_line(console, f"\n{number}. {question.text}", "bold")
    if question.gold <= kept_ids:
        print_line(console, "   answer kept", "green")
    else:
        print_line(console, "   ANSWER DROPPED", "bold red")
    passage_count = len(question.passages)
    print_line(console, f"   text of {len(kept_ids)} of {passage_count} passages kept")
    for note in answer_notes:
        print_line(console, f"   {note}")


def load_recorded_llm() -> tuple[RecordedLLM, str]:
    """Return the model that replays the replies that ship, and where they come from."""
    replies = files("denoise_core.embedded") / "data" / "demo_replies.jsonl"
    rows = [json.loads(line) for line in replies.read_text("utf-8").splitlines()]
    llm = RecordedLLM({row["prompt"]: row["reply"] for row in rows})
    models = sorted({f"{row['model']}, {row['date']}" for row in rows})
    reply_origin = (
        f"replies recorded from {' and '.join(models)}, prompt version {VERSION}"
    )
    return llm, reply_origin


def _count_tokens(passages: Sequence[Passage]) -> int:
    encoder = shared_encoder()
    return sum(encoder.count_tokens(passage.text) for passage in passages)
