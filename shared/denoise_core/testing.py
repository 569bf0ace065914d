"""For tests: fakes that are functions, and the laws of denoisers and scorers.

Nothing here needs a network, a model or a test framework; a violated law is an
`AssertionError` that says which law and where.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import ContractViolation
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.result import DenoiseResult, Trace
from denoise_core.runtime.guard import validate_result
from denoise_core.types import Message, Passage, Reply


class FunctionLLM:
    """An LLM that is a function of the messages; see ``received_messages``.

    ``reply`` may return a string or a `Reply`, or raise. ``seconds`` is how long each call takes; the
    async form waits without blocking.
    """

    def __init__(
        self, reply: Callable[[Sequence[Message]], str | Reply], *, seconds: float = 0.0
    ) -> None:
        self.reply = reply
        self.seconds = seconds
        self.received_messages: list[tuple[Message, ...]] = []

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the function's reply, after ``seconds``."""
        if self.seconds:
            time.sleep(self.seconds)
        return self._answer(messages)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Do the same as `complete`."""
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self._answer(messages)

    def _answer(self, messages: Sequence[Message]) -> Reply:
        self.received_messages.append(tuple(messages))
        answer = self.reply(messages)
        if isinstance(answer, str):
            return Reply(answer)
        return answer


class RecordedLLM(FunctionLLM):
    """A model that gives recorded replies: ``replies`` by the prompt's `key`.

    Raises ``KeyError`` for a prompt without a reply, and keeps it in ``missing_prompts``: a line of JSON each, as
    'rag-denoise record' reads them.
    """

    def __init__(self, replies: Mapping[str, str]) -> None:
        super().__init__(lambda messages: self.replies[self.key(messages)])
        self.replies = replies

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read what 'rag-denoise record' wrote: JSON lines of a `key` and a ``reply``."""
        replies = {}
        file_text = Path(path).read_text("utf-8")
        for line in file_text.splitlines():
            row = json.loads(line)
            replies[row["prompt"]] = row["reply"]
        return cls(replies)

    @staticmethod
    def key(messages: Sequence[Message]) -> str:
        """Return the SHA-256 of a prompt's roles and texts."""
        prompt = [[message.role, message.content] for message in messages]
        prompt_bytes = json.dumps(prompt).encode()
        return hashlib.sha256(prompt_bytes).hexdigest()

    @property
    def missing_prompts(self) -> list[str]:
        """Prompts that had no reply, each once, as lines of JSON with ``messages``."""
        lines = []
        for messages in dict.fromkeys(self.received_messages):
            if self.key(messages) in self.replies:
                continue
            prompt = [asdict(message) for message in messages]
            line = json.dumps({"messages": prompt})
            lines.append(line)
        return lines


class ListRetriever:
    """A retriever that always finds the same passages; ``queries`` has all queries."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        self.queries: list[str] = []

    def retrieve(self, query: str) -> Sequence[Passage]:
        """Return all passages, and note the query."""
        self.queries.append(query)
        return self.passages

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        """Do the same as `retrieve`."""
        return self.retrieve(query)


class FunctionScorer:
    """A scorer that is a function of the query and one text."""

    def __init__(self, score_one: Callable[[str, str], float]) -> None:
        self.score_one = score_one

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Call the function for each text; float32 ``(len(texts),)``."""
        scores = [self.score_one(query, text) for text in texts]
        return np.array(scores, dtype=np.float32)


def check_denoiser(
    make: Callable[[], Denoiser], query: str, passages: Sequence[Passage]
) -> DenoiseResult:
    """Run a denoiser, check every law, and return the result for further checks.

    Kept text is the source's own at its spans (unless marked ``rewritten``); kept and dropped spans tile
    each input; order and ids are the input's; the input is unchanged; sync equals async; no passages
    give none. ``make`` builds a fresh denoiser each time, so that scripted replies start anew.
    """
    before = [(p.text, p.id, p.score, dict(p.metadata), p.spans) for p in passages]
    result = make().denoise(query, passages)
    try:
        completed = validate_result(passages, result)
    except ContractViolation as error:
        raise AssertionError(str(error)) from error
    unlisted_spans = []
    listed_count = len(result.dropped)
    for drop in completed.dropped[listed_count:]:
        if len(drop.span):
            unlisted_spans.append(drop.span)
    assert not unlisted_spans, f"neither kept nor listed as dropped: {unlisted_spans}"
    after = [(p.text, p.id, p.score, dict(p.metadata), p.spans) for p in passages]
    assert before == after, "the input passages were changed"
    other = asyncio.run(make().adenoise(query, passages))
    sync_result = replace(result, trace=Trace())
    async_result = replace(other, trace=Trace())
    is_same = sync_result == async_result
    assert is_same, f"sync and async differ:\n{result}\n{other}"
    empty = make().denoise(query, [])
    async_empty = asyncio.run(make().adenoise(query, []))
    for empty_result in (empty, async_empty):
        assert empty_result.passages == (), "no passages in, some passages out"
    return result


def check_scorer(
    scorer: Scorer,
    query: str,
    texts: Sequence[str],
    *,
    tolerance: float = 1e-5,
    listwise: bool = False,
) -> NDArray[np.float32]:
    """Check shape, type, and that scores do not depend on order or (unless listwise) others."""
    scores = scorer.score(query, texts)
    assert scores.shape == (len(texts),), (
        f"expected shape {(len(texts),)}, got {scores.shape}"
    )
    assert scores.dtype == np.float32, f"expected float32, got {scores.dtype}"
    backwards = scorer.score(query, texts[::-1])[::-1]
    assert np.allclose(scores, backwards, atol=tolerance), (
        "scores depend on the order of the texts"
    )
    if not listwise:
        single_scores = [scorer.score(query, [text])[0] for text in texts]
        scores_alone = np.array(single_scores, dtype=np.float32)
        assert np.allclose(scores, scores_alone, atol=tolerance), (
            "scores depend on the other texts of the batch"
        )
    return scores
