"""Frameworks' own filters and ours on the same questions, and what an adapter costs over the core."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from _s2a_shared import ScriptedQuestion, count_kept
from harness import Benchmark

from denoise_core import Passage
from denoise_lab.experiments.scripted_server import ScriptedServer

PassageFilter: TypeAlias = Callable[[str, Sequence[Passage]], list[Passage]]
"""Given a question and passages, what is left of them."""


def measure_overhead(
    base_call: Callable[[], Any], adapter_call: Callable[[], Any], rounds: int
) -> float:
    """Return the milliseconds of this thread's CPU time that the adapter adds to the core.

    The calls alternate. The least of each counts, since other work on the machine only
    adds to a reading.
    """
    base_times = []
    adapter_times = []
    for _ in range(rounds):
        start_time = time.thread_time_ns()
        base_call()
        middle_time = time.thread_time_ns()
        adapter_call()
        base_times.append(middle_time - start_time)
        adapter_times.append(time.thread_time_ns() - middle_time)
    return (min(adapter_times) - min(base_times)) / 1e6


@dataclass(frozen=True)
class FilterFigures:
    """What a filter left of all questions; ``gold_share`` counts sentences."""

    gold_count: int
    kept_gold_count: int
    token_share: float
    known_id_share: float

    @property
    def gold_share(self) -> float:
        return self.kept_gold_count / self.gold_count


def measure_filter(
    filter_passages: PassageFilter,
    server: ScriptedServer,
    questions: Sequence[ScriptedQuestion],
) -> FilterFigures:
    """Filter the passages of all questions; the server counts the calls of this filter alone."""
    gold_count = kept_gold_count = 0
    all_tokens = kept_tokens = 0
    kept_count = known_id_count = 0
    server.reset_counts()
    for question in questions:
        server.needed_sentences = question.gold_sentences
        kept = filter_passages(question.text, question.passages)
        kept_texts = [passage.text for passage in kept]
        gold_count += len(question.gold_sentences)
        kept_gold_count += count_kept(question.gold_sentences, kept_texts)
        for passage in question.passages:
            all_tokens += len(server.encode(passage.text))
        for text in kept_texts:
            kept_tokens += len(server.encode(text))
        ids = {passage.id for passage in question.passages}
        kept_count += len(kept)
        known_id_count += sum(passage.id in ids for passage in kept)
    return FilterFigures(
        gold_count,
        kept_gold_count,
        kept_tokens / all_tokens,
        known_id_count / max(1, kept_count),
    )


def report_filters(
    bench: Benchmark,
    server: ScriptedServer,
    pairs: Mapping[str, tuple[PassageFilter, PassageFilter]],
    questions: Sequence[ScriptedQuestion],
) -> None:
    """Add the rows of each peer, and of our filter with the peer's figures as targets."""
    count = len(questions)
    for peer_name, (peer_filter, our_filter) in pairs.items():
        peer = measure_filter(peer_filter, server, questions)
        rows = bench.under(f"{peer_name}, {count} questions: ", has_targets=False)
        report_figures(rows, peer, peer, server, count)
        ours = measure_filter(our_filter, server, questions)
        rows = bench.under(f"in place of {peer_name}, {count} questions: ")
        report_figures(rows, ours, peer, server, count)


def report_figures(
    bench: Benchmark,
    figures: FilterFigures,
    target: FilterFigures,
    server: ScriptedServer,
    count: int,
) -> None:
    bench.share(
        "gold sentences kept",
        figures.kept_gold_count,
        figures.gold_count,
        at_least=target.gold_share,
    )
    bench.row("tokens kept", figures.token_share, "share", at_most=target.token_share)
    bench.row(
        "documents that keep their id", figures.known_id_share, "share", at_least=1.0
    )
    bench.row("calls a question", server.calls / count, "calls")
    bench.row("tokens read a question", server.input_tokens / count, "tokens")
