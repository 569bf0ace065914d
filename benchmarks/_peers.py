"""Frameworks' own parts and ours in their place, over the same questions; what an adapter costs over the core, and
to import. Measured the same way for both frameworks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Benchmark
from s2a_cost import QUOTES, Work

from denoise_core import Passage
from denoise_lab.experiments.scripted_server import ScriptedServer

IMPORT_SECONDS = 0.05


def paired_ms(
    base: Callable[[], Any], work: Callable[[], Any], rounds: int
) -> tuple[float, float]:
    """Milliseconds of this thread's processor time: the least that ``base`` took, and what the least of ``work``
    is beyond it. Both in turns; the least of many, for what else the machine does only adds to a reading."""
    alone, both = [], []
    for _ in range(rounds):
        at = time.thread_time_ns()
        base()
        between = time.thread_time_ns()
        work()
        alone.append(between - at)
        both.append(time.thread_time_ns() - between)
    return min(alone) / 1e6, (min(both) - min(alone)) / 1e6


def import_rows(
    bench: Benchmark, base: str, what: str, ours: Mapping[str, str], free: str = ""
) -> None:
    """Processor seconds of importing in a fresh interpreter, with bytecode in place.

    Of each the quickest of rounds in turns, since other work on the machine only adds. ``ours`` counts beyond
    ``base``, which ``what`` names; ``free`` has no target.
    """
    rounds = 1 if bench.options.quick else 9
    statements = {
        what: base,
        **{name: f"{base}; {code}" for name, code in ours.items()},
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    with tempfile.TemporaryDirectory() as cache:
        env = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": cache,
            "PYTHONDONTWRITEBYTECODE": "",
        }
        for turn in range(rounds + 1):
            for name, statement in statements.items():
                code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
                run = [sys.executable, "-c", code]
                done = subprocess.run(
                    run, capture_output=True, text=True, check=True, env=env
                )
                if turn or bench.options.quick:  # the first turn compiles
                    times[name].append(float(done.stdout))
    quickest = {name: min(found) for name, found in times.items()}
    base_seconds = quickest.pop(what)
    bench.row(f"import {what}", base_seconds, "CPU s")
    for name, seconds in quickest.items():
        rows = bench.under(has_targets=name != free)
        beyond = seconds - base_seconds
        rows.row(
            f"import {name}, beyond these",
            beyond,
            "CPU s",
            at_most=IMPORT_SECONDS,
        )


Part = Callable[[str, Sequence[Passage]], list[tuple[str, str]]]
"""Asked a question over passages: ids and texts of what is left."""


@dataclass
class Run:
    """What one part did over all questions: time, gold sentences, tokens and ids of what it left."""

    seconds: float = 0.0
    gold: int = 0
    found: int = 0
    tokens: int = 0
    given: int = 0
    ids: int = 0
    out: int = 0


def run_of(part: Part, server: ScriptedServer, all_work: Sequence[Work]) -> Run:
    """One part over all questions, with nothing said to the server before."""
    made = Run()
    server.reset_counts()
    for question, passages, sparse, _ in all_work:
        server.needed_sentences = sparse
        started = time.perf_counter()
        out = part(question, passages)
        made.seconds += time.perf_counter() - started
        text, known = " ".join(t for _, t in out), {p.id for p in passages}
        made.gold += len(sparse)
        made.found += sum(s.strip(QUOTES) in text for s in sparse)
        made.tokens += sum(len(server.encode(t)) for _, t in out)
        made.given += sum(len(server.encode(p.text)) for p in passages)
        made.ids += sum(i in known for i, _ in out)
        made.out += len(out)
    return made


def quality(
    bench: Benchmark,
    server: ScriptedServer,
    pairs: Mapping[str, tuple[Part, Part]],
    all_work: Sequence[Work],
) -> None:
    """Each peer and the one line in its place, which is held to it: gold, tokens and ids kept, calls and tokens of
    the model."""
    n = len(all_work)
    for name, both in pairs.items():
        bound: Run | None = None
        for label, part in zip((name, f"in place of {name}"), both, strict=True):
            made = run_of(part, server, all_work)
            peer = bound or made
            rows = bench.under(f"{label}, {n} questions: ", has_targets=peer is bound)
            at_least = peer.found / peer.gold
            rows.share(
                "gold sentences kept",
                made.found,
                made.gold,
                at_least=at_least,
            )
            share = made.tokens / made.given
            at_most = peer.tokens / peer.given
            rows.row(
                "tokens kept",
                share,
                "share",
                at_most=at_most,
            )
            share = made.ids / max(1, made.out)
            rows.row(
                "documents that keep their id",
                share,
                "share",
                at_least=1.0,
            )
            rows.row("calls a question", server.calls / n, "calls")
            rows.row("tokens read a question", server.input_tokens / n, "tokens")
            rows.row("tokens written a question", server.output_tokens / n, "tokens")
            bound = made
