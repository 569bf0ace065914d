"""Retrievers, tools, chains and agents that would have their own words taken for evidence, or act twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from denoise_core import Message, Passage, Reply, Usage
from denoise_core.augmenter import (
    Answer,
    AnswerVerdict,
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    WorkingMemory,
)
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, RetrievedEvidence
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.augmenter.streaming import Finished, Revised, stream_verified
from denoise_core.runtime.effects import Flow
from denoise_core.testing import FunctionLLM
from denoise_core.text.words import content_words

QUESTION = "When was the opera house by the river completed?"
MADE_UP = "It was completed in 1912 by Otto Brenner, in the Grand Hall."
HOUSE = Passage(
    "The opera house stands by the river. It has two balconies and seats 900 people.",
    "house",
)
HALL = Passage("The Grand Hall was completed in 1912 by Otto Brenner.", "hall")


def has_words(question: str, evidence: Sequence[str], claim: str) -> float:
    """A judge that is easily fooled: one piece of evidence has every word of the claim."""
    said = set(content_words(claim))
    return float(any(said <= set(content_words(text)) for text in evidence))


@dataclass(frozen=True)
class Achieved:
    """What one adversary achieved: its hallucination was called supported; effects outside that happened twice;
    the share by which the counted tokens differ from those that were used."""

    supported: bool
    twice: int
    tokens_off: float


class Searching:
    """A chain whose search reads whatever it was given, the rejected draft and the feedback included."""

    def __init__(
        self, *, told: bool = True, repeatable: bool = True, echo: bool = False
    ) -> None:
        self.told = told
        self.repeatable = repeatable
        self.echo = echo
        self.effects = 0
        self.used = Usage(0, 0)

    def draft(self, request: DraftRequest) -> DraftReply:
        self.effects += not self.repeatable
        asked = " ".join(
            part
            for part in (request.question, request.rejected_draft, request.feedback)
            if part
        )
        if self.echo:
            passages: tuple[Passage, ...] = (
                HOUSE,
                Passage(MADE_UP, "echo", provenance="tool"),
            )
            found = (
                RetrievedEvidence(passages[:1], request.question),
                RetrievedEvidence(passages[1:], MADE_UP),
            )
        else:
            passages = (HALL, HOUSE) if "Grand Hall" in asked else (HOUSE,)
            found = (RetrievedEvidence(passages, asked if self.told else None),)
        usage = Usage(70_000 + len(asked), 262)
        self.used = Usage(
            self.used.input_tokens + usage.input_tokens,
            self.used.output_tokens + usage.output_tokens,
        )
        return DraftReply(MADE_UP, usage, calls=3, retrieved=found)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.draft(request)


class Streaming(Searching):
    """An agent that writes piece by piece and acts at the very end."""

    def __init__(self) -> None:
        super().__init__(repeatable=False)
        self.ended = 0

    def stream(
        self, request: DraftRequest
    ) -> Iterator[str | RetrievedEvidence | DraftReply]:
        drafted = self.draft(request)
        yield from drafted.retrieved
        yield f"{drafted.text} More was said."
        self.ended += 1
        yield replace(drafted, text=f"{drafted.text} More was said.")

    async def astream(
        self, request: DraftRequest
    ) -> AsyncIterator[str | RetrievedEvidence | DraftReply]:
        for piece in self.stream(request):
            yield piece


class TimingOut(Searching):
    """An agent that has acted when it fails."""

    def draft(self, request: DraftRequest) -> DraftReply:
        super().draft(request)
        raise TimeoutError("half way")


class Brings:
    """A source that answers every query with a passage made by ``make``."""

    def __init__(self, make: Callable[[str], Sequence[Passage]]) -> None:
        self.make = make

    def retrieve(self, query: str) -> Sequence[Passage]:
        return self.make(query)

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        return self.make(query)


def adversaries() -> dict[str, Callable[[], Achieved]]:
    """Each by what it tries; every call runs it once."""
    return {
        "chain searches with the rejected draft": lambda: _chain(Searching()),
        "chain hides what it searched with": lambda: _chain(Searching(told=False)),
        "tool says back what it was told": lambda: _chain(Searching(echo=True)),
        "agent that cannot be repeated": lambda: _chain(Searching(repeatable=False)),
        "agent that fails after it acted": lambda: _chain(TimingOut(repeatable=False)),
        "agent streamed and checked": _streamed,
        "agent whose judge fails": lambda: _chain(
            Searching(repeatable=False), judge=_Broken()
        ),
        "source of text that a model wrote": lambda: _source(
            lambda q: [HOUSE, replace(HALL, provenance="model")]
        ),
        "source of text that the user wrote": lambda: _source(
            lambda q: [HOUSE, replace(HALL, provenance="user")]
        ),
        "source that confirms its query": lambda: _source(
            lambda q: [HOUSE, Passage(f"{q} Yes.", "yes")]
        ),
        "source with what a claim's names bring": lambda: _source(
            lambda q: (
                [HALL, HOUSE]
                if "Brenner" in q or "1912" in q or "Hall" in q
                else [HOUSE]
            )
        ),
        "model that writes the draft as a query": _written_queries,
        "failed search after a draft": _failing_search,
    }


class _Broken:
    """A judge that is down."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        raise OSError("the judge is down")


def _chain(chain: Searching, **settings: object) -> Achieved:
    loop = Augmenter(limits=LoopLimits(patience=3), **{"judge": has_words, **settings})  # type: ignore[arg-type]
    answer = loop.answer(QUESTION, drafter=chain)
    used, counted = chain.used, answer.trace.usage
    failed = any(
        what == "draft" for what, _ in answer.memory.failures
    )  # a reply that never came counts nothing
    off = 0.0 if failed else abs(used.total - counted.total) / max(1, used.total)
    return Achieved(_fooled(answer), max(0, chain.effects - 1), off)


def _streamed() -> Achieved:
    agent = Streaming()
    *_, last = stream_verified(
        Augmenter(judge=has_words), QUESTION, drafter=agent, show="checked"
    )
    assert isinstance(last, (Finished, Revised))
    return Achieved(
        _fooled(last.answer), max(0, agent.effects - 1) + (agent.ended != 1), 0.0
    )


def _source(make: Callable[[str], Sequence[Passage]]) -> Achieved:
    return _model(Consolidator(Brings(make), wide=(Brings(make),)))


def _written_queries() -> Achieved:
    def write(messages: Sequence[Message]) -> str:
        return MADE_UP if "search queries" in messages[0].content else "unused"

    def find(query: str) -> Sequence[Passage]:
        return [HALL, HOUSE] if "Brenner" in query else [HOUSE]

    drafted: list[str] = []

    def queries(memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
        if wide or drafted:
            return (yield from LLMQueries(FunctionLLM(write))(memory, wide))
        drafted.append("first")
        return (memory.question,)

    return _model(Consolidator(Brings(find), queries=queries))


def _failing_search() -> Achieved:
    asked: list[str] = []

    def find(query: str) -> Sequence[Passage]:
        asked.append(query)
        if len(asked) > 1:
            raise OSError("down")
        return [HOUSE]

    return _model(Consolidator(Brings(find)))


def _model(sources: Consolidator) -> Achieved:
    used: list[Usage] = []

    def write(messages: Sequence[Message]) -> Reply:
        used.append(Usage(sum(len(m.content) for m in messages) // 4, 20))
        return Reply(MADE_UP, used[-1])

    answer = Augmenter(
        FunctionLLM(write), sources, judge=has_words, limits=LoopLimits(patience=3)
    ).answer(QUESTION)
    total = sum(u.total for u in used)
    counted = sum(
        e.usage.total for e in answer.trace.events if e.tag == "draft" and e.usage
    )
    return Achieved(_fooled(answer), 0, abs(total - counted) / max(1, total))


def _fooled(answer: Answer) -> bool:
    return answer.outcome is Outcome.SUPPORTED and "1912" in answer.text
