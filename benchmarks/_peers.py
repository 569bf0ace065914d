"""Frameworks' own filters and ours on the same questions, and what an adapter costs over the core."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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


def report_filters(
    bench: Benchmark,
    server: ScriptedServer,
    pairs: Mapping[str, tuple[PassageFilter, PassageFilter]],
    questions: Sequence[ScriptedQuestion],
) -> None:
    """Add the rows of each peer, and of our filter with the peer's figures as targets."""
    count = len(questions)
    for peer_name, (peer_filter, our_filter) in pairs.items():
        rows = bench.under(f"{peer_name}, {count} questions: ", has_targets=False)
        figures = report_filter(rows, peer_filter, server, questions, (0.0, 1.0))
        rows = bench.under(f"in place of {peer_name}, {count} questions: ")
        report_filter(rows, our_filter, server, questions, figures)


def report_filter(
    bench: Benchmark,
    filter_passages: PassageFilter,
    server: ScriptedServer,
    questions: Sequence[ScriptedQuestion],
    targets: tuple[float, float],
) -> tuple[float, float]:
    """Filter the passages of all questions; the server counts the calls of this filter alone.

    ``targets``, as what is returned, are the shares of gold sentences and of tokens kept.
    """
    gold_count = kept_gold_count = all_tokens = kept_tokens = 0
    has_known_id = []
    server.reset_counts()
    for question in questions:
        server.needed_sentences = question.gold_sentences
        kept = filter_passages(question.text, question.passages)
        kept_texts = [passage.text for passage in kept]
        gold_count += len(question.gold_sentences)
        kept_gold_count += count_kept(question.gold_sentences, kept_texts)
        ids = set()
        for passage in question.passages:
            all_tokens += len(server.encode(passage.text))
            ids.add(passage.id)
        for passage in kept:
            kept_tokens += len(server.encode(passage.text))
            has_known_id.append(passage.id in ids)
    least_gold, most_tokens = targets
    token_share = kept_tokens / all_tokens
    known_share = sum(has_known_id) / max(1, len(has_known_id))
    count = len(questions)
    bench.share("gold sentences kept", kept_gold_count, gold_count, at_least=least_gold)
    bench.row("tokens kept", token_share, "share", at_most=most_tokens)
    bench.row("documents that keep their id", known_share, "share", at_least=1.0)
    bench.row("calls a question", server.calls / count, "calls")
    bench.row("tokens read a question", server.input_tokens / count, "tokens")
    return kept_gold_count / gold_count, token_share
