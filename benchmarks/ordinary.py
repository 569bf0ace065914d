"""Ordinary files, asked what their owners ask: are the places kept that answer, in how much of the text, and do
library, command, both adapters and the service keep the same?

``DATA/ordinary`` has the files and ``questions.jsonl``: ``needed`` are places of the file, verbatim, all of which
the answer needs; none where the file does not answer.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Benchmark, arguments, json_lines

from denoise_core.embedded import default_denoiser
from denoise_core.embedded.default import shared_encoder
from denoise_core.end.selection import TokenLimit
from denoise_core.result import DenoiseResult
from denoise_core.types import Passage

LARGE = 3_000  # characters from which a file's share counts


@dataclass(frozen=True)
class Asked:
    file: str
    question: str
    needed: tuple[str, ...]
    text: str
    answer: str = ""

    @property
    def passage(self) -> Passage:
        return Passage(self.text, self.file)

    @property
    def format(self) -> str:
        return Path(self.file).suffix[1:]


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("ordinary", options)
    asked = (
        _quick()
        if options.data is None
        else read_files(options.data / "ordinary", 12 if options.quick else None)
    )
    denoiser = default_denoiser()
    results = [denoiser.denoise(a.question, [a.passage]) for a in asked]
    bench.row("questions", len(asked), "questions")
    _told(bench, "", asked, results, 0.95, 0.85)
    for name in sorted({a.format for a in asked}):
        mine = [n for n, a in enumerate(asked) if a.format == name]
        _told(bench, f"{name}: ", [asked[n] for n in mine], [results[n] for n in mine])
    for limit, least in ((100, 0.90), (200, 0.95)):
        _budget(bench, limit, least, asked, results)
    _doors(bench, asked, results)
    return bench.finish()


def read_files(folder: Path, most: int | None) -> list[Asked]:
    rows = json_lines(folder / "questions.jsonl")[:most]
    texts = {
        r["file"]: (folder / r["file"]).read_bytes().decode("utf-8-sig") for r in rows
    }
    return [
        Asked(
            r["file"],
            r["question"],
            tuple(r["needed"]),
            texts[r["file"]],
            r["answer"] or "",
        )
        for r in rows
    ]


def _quick() -> list[Asked]:
    text = "# Rooms\n\nA bed costs 80 euros.\n\n# Pool\n\nIt opens at nine.\n\n# Bar\n\nTea is free.\n"
    return [
        Asked("a.md", "What does a bed cost?", ("80 euros",), text),
        Asked("a.md", "Who is the owner?", (), text),
    ]


def _kept(asked: Asked, result: DenoiseResult) -> np.ndarray:
    """For each character of the file whether it is kept."""
    kept = np.zeros(len(asked.text), dtype=bool)
    for passage in result.passages:
        for span in passage.source_spans:
            kept[span.start : span.end] = True
    return kept


def _answered(asked: Asked, result: DenoiseResult) -> bool:
    """Whether each place that is needed is kept somewhere in full."""
    kept = _kept(asked, result)
    return all(
        any(kept[a:b].all() for a, b in _places(asked.text, needed))
        for needed in asked.needed
    )


def _places(text: str, words: str) -> list[tuple[int, int]]:
    out, at = [], text.find(words)
    while at >= 0:
        out.append((at, at + len(words)))
        at = text.find(words, at + 1)
    return out


def _told(
    bench: Benchmark,
    name: str,
    asked: Sequence[Asked],
    results: Sequence[DenoiseResult],
    one: float | None = None,
    two: float | None = None,
) -> None:
    pairs = list(zip(asked, results, strict=True))
    for label, least, chosen in (
        ("one place", one, [p for p in pairs if len(p[0].needed) == 1]),
        ("two places or more", two, [p for p in pairs if len(p[0].needed) > 1]),
    ):
        if chosen:
            hits = sum(_answered(a, r) for a, r in chosen)
            bench.share(
                f"{name}all needed kept, {label}", hits, len(chosen), at_least=least
            )
    whole = one is not None
    large = [_kept(a, r).mean() for a, r in pairs if len(a.text) > LARGE]
    small = [_kept(a, r).mean() for a, r in pairs if len(a.text) <= LARGE]
    if large:
        bench.mean(
            f"{name}text kept of files over {LARGE:,} characters",
            large,
            at_most=0.30 if whole else None,
        )
    if small:
        bench.mean(f"{name}text kept of shorter files", small)
    can = [r.relevant is False for a, r in pairs if a.needed]
    cannot = [r.relevant is False for a, r in pairs if not a.needed]
    bench.share(
        f"{name}answerable called irrelevant",
        sum(can),
        len(can),
        at_most=0.02 if whole else None,
    )
    if cannot:
        bench.share(f"{name}unanswerable said to be so", sum(cannot), len(cannot))


def _budget(
    bench: Benchmark,
    limit: int,
    least: float,
    asked: Sequence[Asked],
    auto: Sequence[DenoiseResult],
) -> None:
    """Answers kept in a budget; and how often it took a piece below the margin while it left an answer out."""
    denoiser = default_denoiser(keep=TokenLimit(limit, shared_encoder().count_tokens))
    chosen = [(a, r) for a, r in zip(asked, auto, strict=True) if len(a.needed) == 1]
    results = [denoiser.denoise(a.question, [a.passage]) for a, _ in chosen]
    hits = sum(_answered(a, r) for (a, _), r in zip(chosen, results, strict=True))
    bench.share(
        f"Tokens({limit}): all needed kept, one place",
        hits,
        len(chosen),
        at_least=least,
    )
    rubbish = 0
    for (a, whole), found in zip(chosen, results, strict=True):
        edge = min((k.score for k in whole.kept), default=-np.inf)
        low = any(k.score < edge for k in found.kept)
        rubbish += low and not _answered(a, found) and _answered(a, whole)
    bench.row(
        f"Tokens({limit}): pieces below the margin in an answer's place",
        rubbish,
        "questions",
        at_most=0,
    )
    counted = [
        sum(shared_encoder().count_tokens(p.text) for p in r.passages) for r in results
    ]
    bench.row(f"Tokens({limit}): most tokens kept", max(counted, default=0), "tokens")


def _doors(
    bench: Benchmark, asked: Sequence[Asked], results: Sequence[DenoiseResult]
) -> None:
    """What each door makes of the same question and file, against the library."""
    doors: dict[str, Callable[[Asked], str]] = {
        "command": _command(asked),
        "LangChain": _langchain(),
        "LlamaIndex": _llamaindex(),
        "service": _service(),
    }
    for name, door in doors.items():
        other = [
            a.question
            for a, r in zip(asked, results, strict=True)
            if door(a) != "".join(p.text for p in r.passages)
        ]
        bench.row(
            f"{name}: questions kept otherwise than by the library",
            len(other),
            "questions",
            at_most=0,
        )
        for question in other[:3]:
            print(f"{name}: {question}")


def _command(asked: Sequence[Asked]) -> Callable[[Asked], str]:
    import tempfile

    from typer.testing import CliRunner

    from denoise_core.cli import load_app

    folder = Path(tempfile.mkdtemp())
    for one in asked:
        (folder / one.file).write_bytes(one.text.encode())

    def door(a: Asked) -> str:
        done = CliRunner().invoke(
            load_app("run"),
            ["run", "-q", a.question, "-p", str(folder / a.file), "--json"],
        )
        return "".join(p["text"] for p in json.loads(done.stdout)["passages"])

    return door


def _langchain() -> Callable[[Asked], str]:
    from langchain_core.documents import Document

    from langchain_denoise import DenoiseCompressor

    made = DenoiseCompressor()

    def door(a: Asked) -> str:
        found = made.compress_documents(
            [Document(page_content=a.text, id=a.file)], a.question
        )
        return "".join(d.page_content for d in found)

    return door


def _llamaindex() -> Callable[[Asked], str]:
    from llama_index.core.schema import NodeWithScore, TextNode

    from llamaindex_denoise import DenoisePostprocessor

    made = DenoisePostprocessor()

    def door(a: Asked) -> str:
        nodes = [NodeWithScore(node=TextNode(text=a.text, id_=a.file), score=1.0)]
        found = made.postprocess_nodes(nodes, query_str=a.question)
        return "".join(n.node.get_content() for n in found)

    return door


def _service() -> Callable[[Asked], str]:
    from starlette.testclient import TestClient

    from denoise_core.service import Service
    from denoise_core.service.app import make_app

    app = make_app(Service(default_denoiser()))
    client = TestClient(app, base_url="http://localhost")
    client.__enter__()
    atexit.register(client.__exit__)

    def door(a: Asked) -> str:
        body = {"query": a.question, "passages": [{"text": a.text, "id": a.file}]}
        reply = client.post("/v1/denoise", json=body)
        return "".join(p["text"] for p in reply.json()["passages"])

    return door


if __name__ == "__main__":
    main()
