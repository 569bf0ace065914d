"""One random run: a part, passages, a fault somewhere outside it; and what must hold whatever happened.

*lost*: text came in, none came out, and no policy asked for that. *unreported*: a fault was met and neither
raised nor named in the result. *law broken*: spans that do not tile, ids that were not given. *budget over*:
more calls than allowed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from laws import check_result
from stress_faults import (
    BROKEN,
    MISTAKES,
    NEVER,
    PARTS,
    RAISED,
    SECONDS,
    STORES,
    Outside,
)

from denoise_core import Budget, DenoiseResult, Guard, Passage, Pipeline
from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_user_error
from denoise_core.s2a import Cache, Options, S2ADenoiser

LINES = (
    "The tower is 330 m tall. ",
    "I think it is lovely! ",
    "It opened in 1889.\n\n",
    "Bananas are yellow. ",
    "\n",
    "<evidence>END document</evidence> ",
    "Größe: 330 m… ",
    "塔高330米。",
    "\u200b",
    "x" * 40 + " ",
)


@dataclass
class Tally:
    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def bad(self, what: str, run: Run, why: object = "") -> None:
        self.wrong[what] += 1
        self.examples.append(f"{what}: {run.part}, {run.fault}: {why}")


@dataclass(frozen=True)
class Run:
    part: str
    fault: str
    at: int
    passages: tuple[Passage, ...]
    reply: str
    calls: int | None

    @staticmethod
    def draw(drawn: random.Random) -> Run:
        part = drawn.choice(list(PARTS))
        fault = "none"
        if drawn.random() < 0.85:
            fault = drawn.choice(PARTS[part])
        texts = []
        for _ in range(drawn.randint(0, 5)):
            line_count = drawn.randint(0, 5)
            lines = drawn.choices(LINES, k=line_count)
            text = "".join(lines)
            texts.append(text)
        reply = drawn.choice(["1", "1, 2", "NONE", "2-3", "1-3"])
        if part == "Augmenter":
            reply = drawn.choice(
                [
                    "The tower is 330 m tall [1].",
                    "It is 500 m tall [1].",
                    "I do not know.",
                    "yes",
                ]
            )
        budget = None
        if drawn.random() < 0.15:
            budget = drawn.randint(0, 3)
        passages = tuple(Passage(t, str(n)) for n, t in enumerate(texts))
        return Run(part, fault, drawn.randint(1, 3), passages, reply, budget)

    def made(self, outside: Outside) -> Any:
        never = self.fault == NEVER
        budget = Budget(
            calls=self.calls,
            seconds=SECONDS if never and self.part != "Augmenter" else None,
        )
        cache = (
            Cache("m", outside)
            if self.part == "S2A cached" or self.fault in STORES
            else None
        )
        options = Options(cache=cache, join_passages=False)
        s2a = S2ADenoiser(outside, variant="select", budget=budget, options=options)
        end = ENDDenoiser(outside, keep=0.5)
        limits = LoopLimits(steps=12, call_seconds=SECONDS if never else None)
        match self.part:
            case "END":
                return Guard(end)
            case "Guard":
                return Guard(outside)
            case "Pipeline":
                return Guard(Pipeline(end, s2a))
            case "Augmenter":
                return Augmenter(outside, outside, budget=budget, limits=limits)
            case "LangChain":
                from langchain_denoise import DenoiseCompressor

                return DenoiseCompressor(denoiser=s2a)
            case "LlamaIndex":
                from llamaindex_denoise import DenoisePostprocessor

                return DenoisePostprocessor(denoiser=s2a)
            case _:
                return s2a

    def documents(self) -> list[Any]:
        if self.part == "LangChain":
            from langchain_core.documents import Document

            found: list[Any] = [
                Document(page_content=p.text, id=p.id) for p in self.passages
            ]
            if self.fault == BROKEN:
                found.insert(
                    self.at,
                    Document.model_construct(
                        page_content=None, id="broken", metadata={}
                    ),
                )
            return found
        from llama_index.core.schema import NodeWithScore, TextNode

        found = [
            NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in self.passages
        ]
        if self.fault == BROKEN:
            bad = TextNode(
                text="", id_="broken", metadata={"title": "x"}, text_template="{nobody}"
            )
            found.insert(self.at, NodeWithScore(node=bad))
        return found


BUDGETED = ("S2A", "S2A cached", "Augmenter", "LangChain", "LlamaIndex")
QUERY = "How tall is the tower?"


def run_sync(run: Run, tally: Tally) -> None:
    outside = Outside(run)
    made = run.made(outside)
    try:
        if run.part == "Augmenter":
            out = made.answer(QUERY)
        elif run.part == "LangChain":
            out = made.compress_documents(run.documents(), QUERY)
        elif run.part == "LlamaIndex":
            out = made.postprocess_nodes(run.documents(), query_str=QUERY)
        else:
            out = made.denoise(QUERY, (p for p in run.passages))
    except Exception as error:
        _raised(run, outside, error, tally)
    else:
        _returned(run, outside, out, tally)
    _counted(run, outside, tally)


async def run_async(run: Run, tally: Tally) -> None:
    """One run, which may be cancelled."""
    outside = Outside(run)
    made = run.made(outside)

    def call() -> Any:
        if run.part == "Augmenter":
            return made.aanswer(QUERY)
        if run.part == "LangChain":
            return made.acompress_documents(run.documents(), QUERY)
        if run.part == "LlamaIndex":
            return made.apostprocess_nodes(run.documents(), query_str=QUERY)
        return made.adenoise(QUERY, (p for p in run.passages))

    task = asyncio.create_task(call())
    if run.fault == "cancelled":
        asyncio.get_running_loop().call_later(0.005, task.cancel)
    try:
        out = await asyncio.wait_for(task, 60)
    except asyncio.CancelledError:
        if run.fault != "cancelled":
            tally.bad("unreported", run, "cancelled by nobody")
    except TimeoutError as error:
        if task.cancelled():
            tally.bad("lost", run, f"hangs for ever: {error}")
        else:
            _raised(run, outside, error, tally)
    except Exception as error:
        _raised(run, outside, error, tally)
    else:
        _returned(run, outside, out, tally)
    _counted(run, outside, tally)


def _counted(run: Run, outside: Outside, tally: Tally) -> None:
    tally.runs += 1
    tally.parts[run.part] += 1
    if outside.met or run.fault in (*STORES, "cancelled", BROKEN):
        tally.faults[run.fault] += 1
    is_over = run.calls is not None and outside.calls > run.calls
    if is_over and run.part in BUDGETED:
        tally.bad("budget over", run, f"{outside.calls} calls of {run.calls}")


def _raised(run: Run, outside: Outside, error: Exception, tally: Tally) -> None:
    """Only mistakes may come through: every policy here is to keep."""
    if not is_user_error(error):
        tally.bad("lost", run, f"raised {error!r}")
    elif run.fault not in MISTAKES:
        tally.bad("unreported", run, f"raised as a mistake: {error!r}")


def _returned(run: Run, outside: Outside, out: Any, tally: Tally) -> None:
    if run.fault in MISTAKES and outside.met:
        tally.bad("unreported", run, "a mistake was swallowed")
    if run.part == "Augmenter":
        failed = any(
            what for what, _ in out.memory.failures
        ) or out.stop_reason not in ("passed", "sent")
        if outside.met and run.fault in (*RAISED, NEVER) and not failed:
            tally.bad("unreported", run, out.stop_reason)
        return
    if run.part in ("LangChain", "LlamaIndex"):
        _documents(run, outside, out, tally)
        return
    try:
        check_result(run.passages, out)
    except AssertionError as error:
        tally.bad("law broken", run, error)
    had = any(p.text.strip() for p in run.passages)
    guarded = run.part in ("END", "Guard", "Pipeline")
    if (
        guarded
        and had
        and not any(p.text.strip() for p in out.passages)
        and out.relevant is not False
    ):
        tally.bad("lost", run, "nothing was kept")
    silent = ("huge numbers", "infinite scores", "cancelled", "hang", "turned round")
    if outside.met and run.fault not in silent and not _told(out) and had:
        tally.bad("unreported", run, out)


def _told(result: DenoiseResult) -> bool:
    reports = getattr(result, "reports", ())
    return bool(
        result.fallback
        or result.failures
        or result.note
        or any(r.problem or r.notes for r in reports)
    )


def _documents(run: Run, outside: Outside, out: list[Any], tally: Tally) -> None:
    by_id = {(d.id if run.part == "LangChain" else d.node.node_id): d for d in out}
    texts = [
        d.page_content if run.part == "LangChain" else d.node.get_content() for d in out
    ]
    met = [d.metadata if run.part == "LangChain" else _record(d.node) for d in out]
    told = [
        m.get("denoise_fallback" if run.part == "LangChain" else "fallback")
        for m in met
    ]
    whole = "\n".join(p.text for p in run.passages)
    for text in texts:
        for piece in filter(str.strip, (text or "").split("\n")):
            if piece.strip() not in whole and not all(
                w in whole for w in piece.split()
            ):
                tally.bad("law broken", run, piece)
    if any("s3cr3tvalue" in str(m) for m in met):
        tally.bad("unreported", run, "a secret stands in metadata")
    if run.fault == BROKEN:
        if "broken" not in by_id:
            tally.bad("lost", run, "the broken document")
        elif not told[list(by_id).index("broken")]:
            tally.bad("unreported", run, "the broken document")
        elif told.count(told[list(by_id).index("broken")]) > 1:
            tally.bad("unreported", run, "a broken document marks others")
    if not outside.met or run.fault not in RAISED or run.fault in MISTAKES:
        return
    if not any(told) and any(p.text.strip() for p in run.passages):
        tally.bad("unreported", run, met[:1])
    if run.at == 1 and any(
        p.text.strip() and p.text not in texts for p in run.passages
    ):
        tally.bad("lost", run, "not every document came back whole")


def _record(node: Any) -> Any:
    from llamaindex_denoise import record

    return record(node) or {}
