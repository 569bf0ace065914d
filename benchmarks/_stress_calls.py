"""Whole calls over texts of a given size, whose time must be in proportion to the text."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

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

PASSAGE_CHARACTERS = 100
QUERY = "tower1 Bridge2"
RNG = random.Random(1)
NAMES = ("tower", "Bridge", "harbour", "Lisbon", "iron")
WORDS = []
for name in NAMES:
    WORDS += [f"{name}{number}" for number in range(400)]

MakeCall: TypeAlias = Callable[[int], Callable[[], Any]]
"""Given a number of characters, the call to be timed; its text is made before."""


def calls() -> dict[str, MakeCall]:
    """Return whole calls by name."""
    select = S2ADenoiser(FunctionLLM(lambda messages: "1, 3"), variant="select")
    end = ENDDenoiser(BM25Scorer(), keep=0.3)
    chunker = sentence_chunker(200)
    steps = []
    for characters in (100, 90, 80):
        step = ENDDenoiser(BM25Scorer(), keep=0.9, chunker=sentence_chunker(characters))
        steps.append(step)
    nested = Pipeline(Pipeline(*steps[:2]), steps[2])

    def judge(passages: list[Passage]) -> Any:
        memory = WorkingMemory("Where is tower1?", tuple(passages))
        return run(Groundedness().assess(memory, "Tower1 is in Lisbon2 [1]."))

    def wrap(passages: list[Passage]) -> str:
        return wrap_in_envelope(passages[0].text, "document")

    def denoise_passages(passages: list[Passage]) -> Any:
        return end.denoise(QUERY, passages)

    return {
        "sentences": call_with(make_text, lambda ps: sentence_spans(ps[0])),
        "chunks": call_with(make_text, lambda ps: chunker(ps[0])),
        "envelope": call_with(make_text, wrap),
        "envelope of marks": call_with(make_marks, wrap),
        "judge": call_with(make_text, judge),
        "END over passages of 100 characters": call_with(
            make_passages, denoise_passages
        ),
        "S2A select": call_with(make_text, lambda ps: select.denoise("tower1?", ps)),
        "nested pipelines": call_with(make_text, lambda ps: nested.denoise(QUERY, ps)),
        "linking": call_with(make_passages, find_links),
        "HTML": call_with(
            make_passages, lambda ps: fragment(ps, end.denoise("tower1", ps))
        ),
    }


def call_with(
    make_passages: Callable[[int], list[Passage]],
    function: Callable[[list[Passage]], Any],
) -> MakeCall:
    def make_call(size: int) -> Callable[[], Any]:
        passages = make_passages(size)
        return lambda: function(passages)

    return make_call


def make_text(size: int) -> list[Passage]:
    """Return one passage of so many characters of sentences."""
    sentences = []
    length = 0
    while length < size:
        words = " ".join(RNG.choices(WORDS, k=9)).capitalize()
        sentences.append(f"{words} in {RNG.randint(1000, 2000)}. ")
        length += len(sentences[-1])
    return [Passage("".join(sentences)[:size], "a")]


def make_marks(size: int) -> list[Passage]:
    return [Passage("<\n" * (size // 2), "a")]


def make_passages(size: int) -> list[Passage]:
    """Return passages of a hundred characters each, of so many characters together."""
    (whole,) = make_text(size)
    passages = []
    for start in range(0, size, PASSAGE_CHARACTERS):
        text = whole.text[start : start + PASSAGE_CHARACTERS]
        passages.append(Passage(text, str(start)))
    return passages
