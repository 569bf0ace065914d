"""What a large language model does with this package's prompts, replayed from recorded replies.

``select``, rewriting and the quoting judge, next to what needs no model. A reply is found by its prompt, which is
written anew from the data; a prompt that has changed is counted. Replies to version 4 of S2A's prompts (the data
folder) are found by the numbered material and the question, which are as they were; their rows name the version.
Cosine keeps sentences, as many characters of each question as the way it is compared with. Answers on ordinary
files are written from the whole file, from what the default keeps, from what cosine keeps in as many characters,
and from the needed places alone; one is right when it supports the known answer, by the quoting judge. With
``--data``.

``--own replies.jsonl`` takes the replies of your own model. What it lacks is written to ``replies.prompts.jsonl``;
``rag-denoise record replies.prompts.jsonl replies.jsonl --llm http://host:port/v1#name`` has it answered."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _judged_sets import Case, cases
from _recorded import FOLDER, records
from harness import Benchmark, arguments, json_lines, read_data_set
from ordinary import read_files as ordinary

from denoise_core import Message, Passage, Reply
from denoise_core.embedded import default_denoiser, embedding_scorer
from denoise_core.end import ENDDenoiser, TokenLimit
from denoise_core.runtime.flow import run
from denoise_core.s2a import Prompts, S2ADenoiser
from denoise_core.s2a.answer import answer_from_passages
from denoise_core.support.check import check
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_core.text.chunk import sentence_spans
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems

SETS = {"hotpotqa_distractor": "HotpotQA", "musique": "MuSiQue"}
NOW, BEFORE = "prompts 6", "prompts 4"
REWRITING = "prompts 5"  # of the prompts that `select` does not share


class Held(RecordedLLM):
    """Recorded from a model that was held to a JSON schema, where ``structured`` says so."""

    def __init__(self, replies: Mapping[str, str], structured: bool = False) -> None:
        super().__init__(replies)
        self.structured = structured

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)


class ByMaterial(Held):
    """Finds a reply by what the prompt encloses between its markers, whatever is said around it."""

    @staticmethod
    def key(messages: Sequence[Message]) -> str:
        text = "\n".join(message.content for message in messages)
        material = re.findall(r"^BEGIN (.*?)^END ", text, re.M | re.S)
        return "".join(material)


@dataclass(frozen=True)
class Asked:
    """A question over passages as they were shown, which of them are gold, and the model that was asked."""

    text: str
    passages: list[Passage]
    gold: set[str]
    answers: list[str]
    llm: RecordedLLM


def before(data: Path, kind: str) -> list[dict[str, Any]]:
    """Recordings of version 4, keyed by their material."""
    recordings = json_lines(data / "recorded" / f"{kind}.jsonl")
    for recording in recordings:
        messages = [Message(**message) for message in recording["messages"]]
        recording["prompt"] = ByMaterial.key(messages)
    return recordings


def questions(data: Path, own: RecordedLLM | None) -> Iterator[tuple[str, Asked]]:
    """By set and prompts' version; passages have their title before the text."""
    mine = {r["id"]: r for r in records("s2a") if r["kind"] == "select"}
    replies = {r["prompt"]: r["reply"] for r in records("s2a") if r["kind"] == "select"}
    for name, shown in SETS.items():
        for q in (q for q in read_data_set(data, name) if q["id"] in mine):
            passages = []
            gold = set()
            for n, p in enumerate(q["passages"]):
                passage = Passage(f"{p['title']}: {p['text']}", str(n))
                passages.append(passage)
                if p["is_gold"]:
                    gold.add(passage.id)
            llm = own or Held(replies, mine[q["id"]]["held"])
            yield (
                f"{shown}, {NOW}",
                Asked(q["question"], passages, gold, q["answers"], llm),
            )
    replies = {r["prompt"]: r["reply"] for r in before(data, "select")}
    for r in () if own else before(data, "select"):
        passages = [Passage(text, str(n)) for n, text in enumerate(r["passages"])]
        asked = Asked(
            r["question"],
            passages,
            {str(n) for n in r["gold"]},
            r["answers"],
            ByMaterial(replies),
        )
        yield f"{SETS[r['set']]}, {BEFORE}", asked


def holds(text: str, part: str) -> bool:
    return " ".join(part.split()).casefold() in " ".join(text.split()).casefold()


def counted(q: Asked, kept: Sequence[Passage]) -> tuple[float, float, float]:
    """Shares of gold passages (any part) and of text that were kept, and whether the answer's words were."""
    all_texts = [passage.text for passage in q.passages]
    kept_texts = [passage.text for passage in kept]
    answer_kept = np.nan
    for answer in q.answers:
        if not any(holds(text, answer) for text in all_texts):
            continue
        if any(holds(text, answer) for text in kept_texts):
            answer_kept = 1.0
        elif np.isnan(answer_kept):
            answer_kept = 0.0
    kept_ids = {passage.id for passage in kept}
    gold_share = len(q.gold & kept_ids) / len(q.gold)
    all_characters = sum(map(len, all_texts))
    kept_characters = sum(map(len, kept_texts))
    return gold_share, answer_kept, kept_characters / all_characters


def select(bench: Benchmark, data: Path, own: RecordedLLM | None) -> None:
    ways: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    absences: dict[str, list[bool]] = {}
    for name, q in questions(data, own):
        selected = S2ADenoiser(q.llm).denoise(q.text, q.passages)
        ways.setdefault((name, "prompts that have changed"), [])
        if selected.failures:
            ways[name, "prompts that have changed"].append((1, 1, 1))
            continue
        if NOW in name:
            absent = absences.setdefault(name, [])
            absent.append(selected.relevant is False)
        kept = {"everything": q.passages, "select": selected.passages}
        kept["the default"] = default_denoiser().denoise(q.text, q.passages).passages
        for way in ("select", "the default"):
            keep = TokenLimit(sum(len(p.text) for p in kept[way]), count=len)
            by_cosine = ENDDenoiser(
                embedding_scorer(), keep=keep, chunker=sentence_spans
            )
            kept[f"cosine, as much as {way}"] = by_cosine.denoise(
                q.text, q.passages
            ).passages
        for way, of in kept.items():
            ways.setdefault((name, way), []).append(counted(q, of))
    for (name, way), rows in ways.items():
        if way == "prompts that have changed":
            bench.row(
                f"{name}: {way}",
                len(rows),
                "questions",
                at_most=0 if NOW in name else None,
            )
            continue
        gold, answered, size = np.array(rows).T
        if way == "everything":
            bench.row(f"{name}: questions", len(rows), "questions")
        bench.mean(f"{name}: gold passages kept, {way}", gold)
        bench.mean(f"{name}: answer kept, {way}", answered[~np.isnan(answered)])
        bench.mean(f"{name}: text kept, {way}", size)
    for name, absent in absences.items():
        bench.right(f"{name}: called absent, select", absent)


def rewrite(bench: Benchmark, data: Path, own: RecordedLLM | None) -> None:
    mine = [r for r in records("s2a") if r["kind"] == "rewrite"]
    made = [(REWRITING, mine, Held)] + (
        [] if own else [(BEFORE, before(data, "rewrite"), ByMaterial)]
    )
    for version, found, model in made:
        replies = {r["prompt"]: r["reply"] for r in found}
        told = []
        for r in found:
            denoiser = S2ADenoiser(
                own or model(replies, r.get("held", False)), variant="default"
            )
            result = denoiser.denoise(r["question"], [Passage(r["passage"], "p")])
            told += [] if result.failures else result.reports
        uncovered = sum(len(r.uncovered_sentences) for r in told)
        bench.row(f"rewriting, {version}: documents", len(found), "documents")
        bench.row(
            f"rewriting, {version}: nothing written",
            sum(not r.sentences for r in told),
            "documents",
        )
        bench.row(
            f"rewriting, {version}: sentences written",
            sum(len(r.sentences) for r in told),
            "sentences",
        )
        bench.row(
            f"rewriting, {version}: sentences without a source", uncovered, "sentences"
        )
        bench.row(
            f"rewriting, {version}: fell back",
            len(found) - len(told),
            "documents",
            at_most=0,
        )


def by_words(case: Case) -> float:
    """The share of the answer's stems and numbers that its best passage has."""
    answer_terms = terms(case.answer)
    shared = max(len(answer_terms & terms(p.text_with_header)) for p in case.passages)
    return shared / max(1, len(answer_terms))


def terms(text: str) -> frozenset[str]:
    """The stems of an English text's content words, and its numbers."""
    found = tokenize_text(text)
    stems = set(content_stems(found, "en"))
    return frozenset(stems | {x.text for x in found if x.kind == "number"})


def judging(bench: Benchmark, found: Sequence[Case], own: RecordedLLM | None) -> None:
    """Right and wrong answers that each judge passes, on the half of every set that was only counted. The line of
    the words is where it does best on the other half."""
    labelled = [c for c in found if c.label in ("right", "wrong")]
    words = [(c, by_words(c)) for c in labelled]
    looked = [(score, c.label == "right") for c, score in words if c.half == "looked"]
    line = max(
        (s for s, _ in looked),
        key=lambda at: sum((s >= at) == right for s, right in looked),
    )
    bench.about["words"] = f"passed from {line:.2f} on"
    quoting = LLMJudge(own or RecordedLLM.from_file(FOLDER / "quoting.jsonl"))

    def quoted(c: Case) -> bool:
        with suppress(
            KeyError
        ):  # nobody has answered its prompt yet; ``main`` counts it
            return check(c.question, c.answer, c.passages, judge=quoting).passed
        return False

    judges: dict[str, Callable[[Case], bool]] = {
        "judge by units, prompts 2": quoted,
        "words": lambda c: by_words(c) >= line,
    }
    for label in ("right", "wrong"):
        part = [c for c in labelled if c.half == "unseen" and c.label == label]
        for name, passes in judges.items():
            bench.right(f"{label} answers passed, {name}", [passes(c) for c in part])
        bench.row(f"{label} answers", len(part), "answers")


def answering(bench: Benchmark, data: Path, own: RecordedLLM | None) -> None:
    """Answers to every fourth question of `ordinary` that its file answers."""
    llm = own or RecordedLLM.from_file(FOLDER / "answers.jsonl")
    right: dict[str, list[bool]] = {}
    sizes: dict[str, list[float]] = {}
    for asked in [a for a in ordinary(data / "ordinary", None) if a.needed][::4]:
        kept = default_denoiser().denoise(asked.question, [asked.passage]).passages
        keep = TokenLimit(sum(len(p.text) for p in kept), count=len)
        by_cosine = ENDDenoiser(embedding_scorer(), keep=keep, chunker=sentence_spans)
        ways = {
            "the whole file": (asked.passage,),
            "what the default keeps": kept,
            "what cosine keeps in as much": by_cosine.denoise(
                asked.question, [asked.passage]
            ).passages,
            "the needed places": (Passage("\n".join(asked.needed), asked.file),),
        }
        for way, passages in ways.items():
            good = False
            with suppress(KeyError):  # as above
                said, _ = run(
                    answer_from_passages(
                        llm, Prompts().answer, asked.question, passages
                    )
                )
                shown = Passage(
                    said, "answer", header=f"The answer to: {asked.question}"
                )
                told = check(asked.question, asked.answer, [shown], judge=LLMJudge(llm))
                good = told.supported is True
            right.setdefault(way, []).append(good)
            sizes.setdefault(way, []).append(
                sum(len(p.text) for p in passages) / len(asked.text)
            )
    bench.row("ordinary files: asked", len(right["the whole file"]), "questions")
    for way, found in right.items():
        bench.right(f"ordinary files: answers right, from {way}", found)
        bench.mean(f"ordinary files: text shown, {way}", sizes[way])


def main(argv: list[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--own", type=Path)
    options = arguments(__doc__ or "", argv, parser)
    given = options.given
    own = None
    if given.own is not None:
        own = (
            RecordedLLM.from_file(given.own) if given.own.exists() else RecordedLLM({})
        )
    name = "real_model" if own is None else f"real_model.{given.own.stem}"
    bench = Benchmark(name, options)
    bench.about |= {
        "model": "a large language model" if own is None else given.own.stem,
        "date": "2026-11" if own is None else f"{datetime.date.today():%Y-%m}",
        "replies": "recorded, replayed by prompt",
    }
    if bench.options.quick:
        bench.row(
            "recorded replies", len(records("s2a")) + len(records("quoting")), "replies"
        )
        return bench.finish()
    data = bench.options.folder
    select(bench, data, own)
    rewrite(bench, data, own)
    answering(bench, data, own)
    judging(bench, [c for of in cases(data).values() for c in of], own)
    if own is not None and own.missing_prompts:
        prompts = given.own.with_suffix(".prompts.jsonl")
        prompts.write_text("\n".join(own.missing_prompts), "utf-8")
        raise SystemExit(
            f"{len(own.missing_prompts)} prompts have no reply. Have them answered, then run this again:\n"
            f"rag-denoise record {prompts} {given.own} --llm http://host:port/v1#name"
        )
    return bench.finish()


if __name__ == "__main__":
    main()
