"""Whole calls over texts of a given size, which are held to time in proportion to the text."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any


def calls() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """Whole calls by name: given a number of characters, what is timed."""
    from denoise_core import Passage, Pipeline
    from denoise_core.augmenter.knowledge.link import find_links
    from denoise_core.augmenter.memory import WorkingMemory
    from denoise_core.augmenter.utility import Groundedness
    from denoise_core.end import ENDDenoiser
    from denoise_core.report.context import fragment
    from denoise_core.runtime.flow import run
    from denoise_core.s2a import S2ADenoiser
    from denoise_core.scorers import BM25Scorer
    from denoise_core.testing import FunctionLLM
    from denoise_core.text.chunk import sentence_chunker, sentence_spans
    from denoise_core.text.delimit import wrap_in_envelope

    drawn = random.Random(1)
    words = [
        f"{a}{b}"
        for a in ("tower", "Bridge", "harbour", "Lisbon", "iron")
        for b in range(400)
    ]

    def prose(size: int) -> str:
        out: list[str] = []
        length = 0
        while length < size:
            line = (
                " ".join(drawn.choices(words, k=9)).capitalize()
                + f" in {drawn.randint(1000, 2000)}. "
            )
            out.append(line)
            length += len(line)
        return "".join(out)[:size]

    def many(size: int) -> list[Passage]:
        text = prose(size)
        return [Passage(text[i : i + 100], str(i)) for i in range(0, size, 100)]

    def nested(size: int) -> Callable[[], Any]:
        given = [Passage(prose(size), "a")]
        steps = [
            ENDDenoiser(BM25Scorer(), keep=0.9, chunker=sentence_chunker(n))
            for n in (100, 90, 80)
        ]
        return lambda: Pipeline(Pipeline(*steps[:2]), steps[2]).denoise(
            "tower1 Bridge2", given
        )

    def timed(
        call: Callable[[Any], Any], make: Callable[[int], Any]
    ) -> Callable[[int], Callable[[], Any]]:
        def at(size: int) -> Callable[[], Any]:
            given = make(size)
            return lambda: call(given)

        return at

    def judge(text: str) -> Any:
        memory = WorkingMemory("Where is tower1?", (Passage(text, "a"),))
        return run(Groundedness().assess(memory, "Tower1 is in Lisbon2 [1]."))

    select = S2ADenoiser(FunctionLLM(lambda m: "1, 3"), variant="select")
    end = ENDDenoiser(BM25Scorer(), keep=0.3)
    return {
        "sentences": timed(lambda t: sentence_spans(Passage(t, "a")), prose),
        "chunks": timed(lambda t: sentence_chunker(200)(Passage(t, "a")), prose),
        "envelope": timed(lambda t: wrap_in_envelope(t, "document"), prose),
        "envelope of marks": timed(
            lambda t: wrap_in_envelope(t, "document"), lambda n: "<\n" * (n // 2)
        ),
        "judge": timed(judge, prose),
        "END over passages of 100 characters": timed(
            lambda p: end.denoise("tower1 Bridge2", p), many
        ),
        "S2A select": timed(
            lambda t: select.denoise("tower1?", [Passage(t, "a")]), prose
        ),
        "nested pipelines": nested,
        "linking": timed(find_links, many),
        "HTML": timed(lambda p: fragment(p, end.denoise("tower1", p)), many),
    }
