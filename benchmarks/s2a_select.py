"""What a large language model kept with S2A's `select`: gold passages, gold sentences and answers, and how much
text.

The replies were recorded from a large language model to the prompts of version 5 (benchmarks/recorded/s2a.jsonl),
half of them in the form for models that are held to a schema: questions of HotpotQA (ten documents) and MuSiQue
(twenty), drawn at random. The whole way is taken: prompts are written anew from the data folder, and a reply is
found by its prompt, so a changed wording stops this benchmark. What is kept includes what a piece cannot be read
without. Rewriting (variant `default`, one document a prompt): whether every written sentence is covered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import Benchmark, arguments, read

from denoise_core import Message, Passage, Reply
from denoise_core.s2a import S2ADenoiser

RECORDED = Path(__file__).parent / "recorded" / "s2a.jsonl"


class Recorded:
    """Answers with what was recorded for a prompt; ``structured`` as the prompts of its records were."""

    def __init__(self, replies: dict[str, str], structured: bool) -> None:
        self.replies, self.structured = replies, structured

    def complete(self, messages: Sequence[Message]) -> Reply:
        said = json.dumps([[m.role, m.content] for m in messages])
        return Reply(self.replies[hashlib.sha256(said.encode()).hexdigest()])

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self.complete(messages)

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)


def records(kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    return [r for r in found if r["kind"] == kind]


def passages_of(question: dict[str, Any]) -> list[Passage]:
    """As they were shown: the title before the text."""
    return [Passage(f"{p['title']}: {p['text']}", str(n)) for n, p in enumerate(question["passages"])]


def holds(text: str, part: str) -> bool:
    return " ".join(part.split()).casefold() in " ".join(text.split()).casefold()


def select(bench: Benchmark, name: str) -> None:
    replies = {r["prompt"]: r["reply"] for r in records("select")}
    held = {r["id"]: r["held"] for r in records("select") if r["set"] == name}
    gold: list[float] = []
    sentences: list[float] = []
    answered: list[float] = []
    text: list[float] = []
    failed = 0
    for question in read(bench.options.data, name):
        if question["id"] not in held:
            continue
        llm = Recorded(replies, held[question["id"]])
        passages = passages_of(question)
        result = S2ADenoiser(llm).denoise(question["question"], passages)
        failed += len(result.failures)
        kept = {p.id: p.text for p in result.passages}
        wanted = [n for n, p in enumerate(question["passages"]) if p["is_gold"]]
        gold += [float(str(n) in kept) for n in wanted]
        for n in wanted:
            own = question["passages"][n]
            marked = [own["sentences"][i] for i in own.get("gold_sentences") or () if i < len(own["sentences"])]
            sentences += [float(holds(kept.get(str(n), ""), s)) for s in marked if s.strip()]
        answers = [a for a in question["answers"] if any(holds(p.text, a) for p in passages)]
        if answers:
            answered.append(float(any(holds(t, a) for a in answers for t in kept.values())))
        text.append(sum(map(len, kept.values())) / sum(len(p.text) for p in passages))
    bench.row(f"{name}: questions", len(text), "questions")
    bench.mean(f"{name}: gold passages kept", gold)
    if sentences:
        bench.mean(f"{name}: gold sentences kept whole", sentences)
    bench.mean(f"{name}: answer string kept", answered)
    bench.mean(f"{name}: text kept", text)
    bench.row(f"{name}: passages that fell back", failed, "passages", at_most=0)


def rewrite(bench: Benchmark) -> None:
    found = records("rewrite")
    replies = {r["prompt"]: r["reply"] for r in found}
    uncovered = written = shown = failed = empty = 0
    for r in found:
        denoiser = S2ADenoiser(Recorded(replies, r["held"]), variant="default")
        result = denoiser.denoise(r["question"], [Passage(r["passage"], "p")])
        (report,) = result.reports
        failed += len(result.failures)
        written += len(report.sentences)
        uncovered += len(report.uncovered)
        shown += bool(result.passages)
        empty += not report.sentences
    bench.row("rewriting: documents", len(found), "documents")
    bench.row("rewriting: nothing written", empty, "documents")
    bench.row("rewriting: sentences written", written, "sentences")
    bench.row("rewriting: sentences without a source, reported", uncovered, "sentences")
    bench.row("rewriting: documents shown", shown, "documents")
    bench.row("rewriting: documents that fell back", failed, "documents", at_most=0)


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_select", arguments(__doc__ or "", argv))
    rewrite(bench)
    if bench.options.data is not None:
        for name in ("hotpotqa_distractor", "musique"):
            select(bench, name)
    return bench.finish()


if __name__ == "__main__":
    main()
