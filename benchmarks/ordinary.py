"""Ordinary files and what their owners ask: is all that a question needs kept, in how much of the text?

``DATA/ordinary`` has the files and ``questions.jsonl``: ``needed`` are parts of the file, verbatim, all of which
the answer needs; there are none where the file does not answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Benchmark, json_lines

from denoise_core.embedded import default_denoiser
from denoise_core.embedded.default import shared_encoder
from denoise_core.end.selection import TokenLimit
from denoise_core.result import DenoiseResult
from denoise_core.types import Passage

LARGE_FILE = 3_000  # characters
LEAST_BY_BUDGET = {100: 0.90, 200: 0.95}
QUICK_TEXT = "# Rooms\n\nA bed costs 80 euros.\n\n# Pool\n\nIt opens at nine.\n\n# Bar\n\nTea is free.\n"


@dataclass(frozen=True)
class FileQuestion:
    """A question about one file, and the parts of its text that the answer needs."""

    file: str
    question: str
    needed: tuple[str, ...]
    text: str
    answer: str = ""

    @property
    def passage(self) -> Passage:
        return Passage(self.text, self.file)


def main() -> None:
    bench = Benchmark("ordinary", __doc__)
    questions = [
        FileQuestion("a.md", "What does a bed cost?", ("80 euros",), QUICK_TEXT),
        FileQuestion("a.md", "Who is the owner?", (), QUICK_TEXT),
    ]
    if bench.data is not None:
        questions = read_files(bench.data / "ordinary")
    denoiser = default_denoiser()
    results = []
    for question in questions:
        results.append(denoiser.denoise(question.question, [question.passage]))
    report_kept(bench, questions, results)
    for budget, least in LEAST_BY_BUDGET.items():
        report_budget(bench, questions, budget, least)
    bench.finish()


def read_files(folder: Path) -> list[FileQuestion]:
    questions = []
    for row in json_lines(folder / "questions.jsonl"):
        text = (folder / row["file"]).read_bytes().decode("utf-8-sig")
        needed = tuple(row["needed"])
        answer = row["answer"] or ""
        questions.append(
            FileQuestion(row["file"], row["question"], needed, text, answer)
        )
    return questions


def report_kept(
    bench: Benchmark,
    questions: Sequence[FileQuestion],
    results: Sequence[DenoiseResult],
) -> None:
    has_one = []
    has_several = []
    large_text = []
    called_irrelevant = []
    for question, result in zip(questions, results, strict=True):
        is_kept = kept_mask(question, result)
        if len(question.text) > LARGE_FILE:
            large_text.append(float(is_kept.mean()))
        if question.needed:
            called_irrelevant.append(result.relevant is False)
            has_all = has_needed_parts(question, is_kept)
            if len(question.needed) == 1:
                has_one.append(has_all)
            else:
                has_several.append(has_all)
    bench.right("all needed kept, one place", has_one, at_least=0.95)
    bench.right("all needed kept, two places or more", has_several, at_least=0.85)
    if large_text:
        measure = f"text kept of files over {LARGE_FILE:,} characters"
        bench.mean(measure, large_text, at_most=0.30)
    bench.right("answerable called irrelevant", called_irrelevant, at_most=0.02)


def kept_mask(question: FileQuestion, result: DenoiseResult) -> np.ndarray:
    """Return for each character of the file whether it is kept."""
    is_kept = np.zeros(len(question.text), dtype=np.bool_)
    for passage in result.passages:
        for span in passage.source_spans:
            is_kept[span.start : span.end] = True
    return is_kept


def has_needed_parts(question: FileQuestion, is_kept: np.ndarray) -> bool:
    """Whether each needed part is kept in full in one of the places where the file has it."""
    for part in question.needed:
        start = question.text.find(part)
        while start >= 0 and not is_kept[start : start + len(part)].all():
            start = question.text.find(part, start + 1)
        if start < 0:
            return False
    return True


def report_budget(
    bench: Benchmark, questions: Sequence[FileQuestion], budget: int, least: float
) -> None:
    limit = TokenLimit(budget, shared_encoder().count_tokens)
    denoiser = default_denoiser(keep=limit)
    has_all = []
    for question in questions:
        if len(question.needed) == 1:
            result = denoiser.denoise(question.question, [question.passage])
            has_all.append(has_needed_parts(question, kept_mask(question, result)))
    bench.right(
        f"Tokens({budget}): all needed kept, one place", has_all, at_least=least
    )


if __name__ == "__main__":
    main()
