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
from denoise_core.cli.check import outcome_word
from denoise_core.cli.options import app
from denoise_core.cli.terminal import print_line, print_table
from denoise_core.embedded import default_denoiser, shared_encoder
from denoise_core.embedded.sample import sample_answers
from denoise_core.evaluate.metrics import wilson_interval
from denoise_core.report.context import ReportItem, render_page
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
PAGE_FILE = "denoise-demo.html"
ANSWER_LABELS = {
    "right": "right answers that pass",
    "wrong": "wrong answers that are stopped",
}


@app.command()
def demo(
    questions: Annotated[
        int, typer.Option(min=1, help="How many of the 40 questions to run.")
    ] = 40,
) -> None:
    """Denoise 40 real questions with 20 passages each, and check a right and a wrong answer to each.

    Prints for every question what was kept, whether the passage with the answer survived, and the judge's
    verdict on both answers; then how often each was as it should be. The judge asks a large language model, whose
    recorded replies are replayed: nothing is downloaded or sent. Writes a page, denoise-demo.html, that shows
    dropped text struck through, with scores on hover. How the default compares with BM25 and cosine on these
    questions: rag-denoise evaluate.
    """
    console = Console(highlight=False)
    all_samples = sample_answers()
    samples = all_samples[:questions]
    llm, reply_source = load_recorded_llm()
    judge = LLMJudge(llm)
    denoiser = default_denoiser()
    good_counts = Counter[str]()
    before = after = 0
    items = []
    tracked_samples = track(samples, "denoising", console=console, transient=True)
    for sample in tracked_samples:
        question = sample.question
        result = denoiser.denoise(question.text, question.passages)
        kept_ids = {passage.id for passage in result.passages}
        notes = ["ANSWER DROPPED"]
        if question.gold <= kept_ids:
            notes = ["answer kept"]
            good_counts["answer kept"] += 1
        for kind, label in ANSWER_LABELS.items():
            answer_field = f"{kind}_answer"
            answer = getattr(sample, answer_field)
            verdict = check(question.text, answer, question.passages, judge=judge)
            is_supported = verdict.outcome == "pass"
            should_pass = kind == "right"
            good_counts[label] += is_supported == should_pass
            word = outcome_word(verdict)
            notes.append(f"{kind} answer: {answer} ({word})")
        before += _count_tokens(question.passages)
        after += _count_tokens(result.passages)
        report_item = ReportItem(question.passages, result, question.gold, tuple(notes))
        items.append(report_item)
        print_line(console, f"\n{len(items)}. {question.text}", "bold")
        print_line(
            console,
            f"   text of {len(kept_ids)} of {len(question.passages)} passages kept",
        )
        for note in notes:
            print_line(console, f"   {note}")
    rows = [["of the questions above", "as it should be", "95 %"]]
    for label, count in good_counts.items():
        low, high = wilson_interval(count, len(items))
        good_share = count / len(items)
        count_text = f"{count} of {len(items)} ({good_share:.0%})"
        interval_text = f"{low:.0%} to {high:.0%}"
        rows.append([label, count_text, interval_text])
    print_table(console, rows)
    print_line(console, f"verdicts of the judge: {reply_source}")
    print_line(
        console,
        f"{before / len(items):,.0f} tokens a question before, "
        f"{after / len(items):,.0f} after ({after / before:.0%})",
    )
    page = Path(PAGE_FILE)
    page_lead = f"{LEAD}{reply_source}."
    page_html = render_page(items, title=TITLE, lead=page_lead, table=rows)
    write_whole(page, page_html)
    print_line(console, f"the page with every passage: {page.resolve()}")


def load_recorded_llm() -> tuple[RecordedLLM, str]:
    """Return the model that replays the replies that ship, and where they come from."""
    replies = files("denoise_core.embedded") / "data" / "demo_replies.jsonl"
    reply_by_prompt = {}
    models = set()
    reply_lines = replies.read_text("utf-8").splitlines()
    for line in reply_lines:
        row = json.loads(line)
        prompt = row["prompt"]
        reply_by_prompt[prompt] = row["reply"]
        model_date = f"{row['model']}, {row['date']}"
        models.add(model_date)
    llm = RecordedLLM(reply_by_prompt)
    model_names = " and ".join(sorted(models))
    reply_origin = f"replies recorded from {model_names}, prompt version {VERSION}"
    return llm, reply_origin


def _count_tokens(passages: Sequence[Passage]) -> int:
    encoder = shared_encoder()
    return sum(encoder.count_tokens(passage.text) for passage in passages)
