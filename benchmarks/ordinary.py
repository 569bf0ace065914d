"""Ordinary files and what their owners ask: is all that a question needs kept, in how much of the text?

``DATA/ordinary`` has the files and ``questions.jsonl``: ``needed`` are parts of the file, verbatim, all of which
the answer needs; there are none where the file does not answer. The command, both adapters and the service must
keep the same as the library.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from harness import Benchmark, arguments, json_lines

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


Filter: TypeAlias = Callable[[FileQuestion], str]
"""The text that is kept for a question."""


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("ordinary", options)
    questions = [
        FileQuestion("a.md", "What does a bed cost?", ("80 euros",), QUICK_TEXT),
        FileQuestion("a.md", "Who is the owner?", (), QUICK_TEXT),
    ]
    if options.data is not None:
        limit = 12 if options.quick else None
        questions = read_files(options.data / "ordinary", limit)
    denoiser = default_denoiser()
    results = []
    for question in questions:
        results.append(denoiser.denoise(question.question, [question.passage]))
    bench.row("questions", len(questions), "questions")
    report_kept(bench, questions, results)
    for budget, least in LEAST_BY_BUDGET.items():
        report_budget(bench, questions, budget, least)
    report_surfaces(bench, questions, results)
    return bench.finish()


def read_files(folder: Path, limit: int | None) -> list[FileQuestion]:
    questions = []
    for row in json_lines(folder / "questions.jsonl")[:limit]:
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
    has_all: dict[bool, list[bool]] = {True: [], False: []}  # by: needs one part
    text: dict[bool, list[float]] = {True: [], False: []}  # by: is a large file
    called_irrelevant: dict[bool, list[bool]] = {True: [], False: []}  # by: answerable
    for question, result in zip(questions, results, strict=True):
        is_kept = kept_mask(question, result)
        is_large = len(question.text) > LARGE_FILE
        text[is_large].append(float(is_kept.mean()))
        is_answerable = bool(question.needed)
        called_irrelevant[is_answerable].append(result.relevant is False)
        if is_answerable:
            needs_one = len(question.needed) == 1
            has_all[needs_one].append(has_needed_parts(question, is_kept))
    bench.right("all needed kept, one place", has_all[True], at_least=0.95)
    bench.right("all needed kept, two places or more", has_all[False], at_least=0.85)
    if text[True]:
        bench.mean(
            f"text kept of files over {LARGE_FILE:,} characters",
            text[True],
            at_most=0.30,
        )
    if text[False]:
        bench.mean("text kept of shorter files", text[False])
    bench.right("answerable called irrelevant", called_irrelevant[True], at_most=0.02)
    bench.right("unanswerable said to be so", called_irrelevant[False])


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


def report_surfaces(
    bench: Benchmark,
    questions: Sequence[FileQuestion],
    results: Sequence[DenoiseResult],
) -> None:
    """Add for how many questions a surface keeps another text than the library."""
    with ExitStack() as stack:
        for name, filter_text in build_surfaces(stack).items():
            differing = []
            for question, result in zip(questions, results, strict=True):
                library_text = "".join(passage.text for passage in result.passages)
                if filter_text(question) != library_text:
                    differing.append(question.question)
            bench.row(
                f"{name}: questions kept otherwise than by the library",
                len(differing),
                "questions",
                at_most=0,
            )
            for text in differing[:3]:
                print(f"{name}: {text}")


def build_surfaces(stack: ExitStack) -> Mapping[str, Filter]:
    from langchain_core.documents import Document
    from llama_index.core.schema import NodeWithScore, TextNode
    from starlette.testclient import TestClient
    from typer.testing import CliRunner

    from denoise_core.cli import load_app
    from denoise_core.service import Service
    from denoise_core.service.app import make_app
    from langchain_denoise import DenoiseCompressor
    from llamaindex_denoise import DenoisePostprocessor

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    app = make_app(Service(default_denoiser()))
    client = TestClient(app, base_url="http://localhost")
    stack.enter_context(client)
    compressor = DenoiseCompressor()
    postprocessor = DenoisePostprocessor()

    def run_command(question: FileQuestion) -> str:
        path = folder / question.file
        path.write_bytes(question.text.encode())
        command = ["run", "-q", question.question, "-p", str(path), "--json"]
        output = CliRunner().invoke(load_app("run"), command).stdout
        return "".join(passage["text"] for passage in json.loads(output)["passages"])

    def run_langchain(question: FileQuestion) -> str:
        document = Document(page_content=question.text, id=question.file)
        kept = compressor.compress_documents([document], question.question)
        return "".join(document.page_content for document in kept)

    def run_llamaindex(question: FileQuestion) -> str:
        node = TextNode(text=question.text, id_=question.file)
        scored = [NodeWithScore(node=node, score=1.0)]
        kept = postprocessor.postprocess_nodes(scored, query_str=question.question)
        return "".join(node.node.get_content() for node in kept)

    def run_service(question: FileQuestion) -> str:
        passage = {"text": question.text, "id": question.file}
        body = {"query": question.question, "passages": [passage]}
        reply = client.post("/v1/denoise", json=body).json()
        return "".join(passage["text"] for passage in reply["passages"])

    return {
        "command": run_command,
        "LangChain": run_langchain,
        "LlamaIndex": run_llamaindex,
        "service": run_service,
    }


if __name__ == "__main__":
    main()
