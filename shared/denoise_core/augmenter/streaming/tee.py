"""The tee: drafts go through it piece by piece, past a watcher that says what to show and may end the draft."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from denoise_core.augmenter.drafting.drafter import Drafted, DraftServer, Found, StreamingDrafter
from denoise_core.augmenter.drafting.taint import evidence_of
from denoise_core.augmenter.streaming.events import Emit, Restarted, StreamingLLM, Text
from denoise_core.augmenter.streaming.watch import Watcher
from denoise_core.protocols import LLM
from denoise_core.running.flow import arun, run
from denoise_core.types import Event, Message, Reply, Usage

Piece: TypeAlias = str | Usage | Found | Drafted


class Closed(BaseException):
    """The reader went away: ends the run in its thread, past everything that handles errors."""


class Tee:
    """What all drafts of one stream share.

    A sync call that was given up for lack of time goes on in its thread until its next piece; its draft is
    no longer the current one, and so it ends there unseen. ``lost`` holds what was asked inside drafts that
    failed.
    """

    def __init__(self, llm: LLM | None, watcher: Watcher, emit: Emit, closed: threading.Event) -> None:
        self.llm = llm
        self.watcher = watcher
        self.emit = emit
        self.closed = closed
        self.lock = threading.Lock()
        self.lost: list[Event] = []
        self.draft = 0

    def serving(self, server: LLM | None) -> TeedLLM:
        """``server`` (None: the model of the loop) with what it writes going through the tee."""
        given = server or self.llm
        assert given is not None, "the loop asks nobody to write without a model or a drafter"
        return TeedLLM(self, given)

    def begin(self) -> int:
        self.draft += 1
        if self.watcher.begin():
            last = self.watcher.memory.last
            self.emit(Restarted(last.verdict.reasons if last else ()))
        return self.draft

    def check(self, draft: int) -> None:
        if self.closed.is_set():
            raise Closed
        if draft != self.draft:
            raise TimeoutError("this draft was given up")

    def tell(self, released: tuple[str, bool]) -> bool:
        text, go_on = released
        if text:
            self.emit(Text(text))
        return go_on


class TeedLLM:
    """One draft's server behind the tee, in the place of an LLM."""

    def __init__(self, tee: Tee, server: LLM) -> None:
        self.tee = tee
        self.server = server
        self.inner: list[Event] = []

    def complete(self, messages: Sequence[Message]) -> Reply:
        tee, whole = self.tee, _Whole()
        with tee.lock:
            mine = tee.begin()
        try:
            for piece in _pieces(self.server, messages):
                with tee.lock:
                    tee.check(mine)
                    if self._noted(piece, whole) or self._tell(tee.watcher.more(str(piece))):
                        continue
                    if self._may_end():
                        return self._reply(whole)
                    whole.unseen = True
            with tee.lock:
                tee.check(mine)
                if not whole.unseen:
                    self._tell(tee.watcher.end())
            return self._reply(whole)
        except BaseException:
            tee.lost += self.inner
            raise

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        tee, whole = self.tee, _Whole()
        tee.begin()
        try:
            async with aclosing(_apieces(self.server, messages)) as pieces:
                async for piece in pieces:
                    if self._noted(piece, whole) or await self._atell(tee.watcher.more(str(piece))):
                        continue
                    if self._may_end():
                        return self._reply(whole)
                    whole.unseen = True
            if not whole.unseen:
                await self._atell(tee.watcher.end())
            return self._reply(whole)
        except BaseException:
            tee.lost += self.inner
            raise

    def _noted(self, piece: Piece, whole: _Whole) -> bool:
        """Text is collected, and what is no text kept; False for text that is to be shown to the watcher."""
        if isinstance(piece, Usage):
            whole.usage = piece
        elif isinstance(piece, Found):
            memory = self.tee.watcher.memory
            counts, _ = evidence_of(Drafted("", found=(piece,)), memory)
            known = {p.text for p in memory.evidence}
            fresh = tuple(p for p in counts if p.text not in known)
            self.tee.watcher.memory = replace(memory, evidence=(*memory.evidence, *fresh))
            whole.found.append(piece)
        elif isinstance(piece, Drafted):
            whole.drafted = piece
        else:
            whole.text += piece
            return whole.unseen
        return True

    def _may_end(self) -> bool:
        """A draft may be ended early unless whoever writes it would leave something half done outside."""
        return not isinstance(self.server, DraftServer) or self.server.drafter.repeatable

    def _tell(self, flow: Any) -> bool:
        released, trace = run(flow, llm=self.tee.llm)
        self.inner += trace.events
        return self.tee.tell(released)

    async def _atell(self, flow: Any) -> bool:
        released, trace = await arun(flow, llm=self.tee.llm)
        self.inner += trace.events
        return self.tee.tell(released)

    def _reply(self, whole: _Whole) -> Reply:
        seen = self.tee.watcher.text
        inner = tuple(self.inner)
        if whole.drafted is not None:
            return replace(whole.drafted, text=whole.drafted.text or seen, inner=(*whole.drafted.inner, *inner))
        text = whole.text if whole.unseen else seen
        if isinstance(self.server, DraftServer):
            return Drafted(text, whole.usage, found=tuple(whole.found), inner=inner)
        return Reply(text, whole.usage, inner=inner)


class _Whole:
    """One draft as it comes in; ``unseen`` once nothing more of it is shown but it is read to its end."""

    def __init__(self) -> None:
        self.text = ""
        self.unseen = False
        self.usage: Usage | None = None
        self.found: list[Found] = []
        self.drafted: Drafted | None = None


def _pieces(server: LLM, messages: Sequence[Message]) -> Iterator[Piece]:
    if isinstance(server, DraftServer) and isinstance(server.drafter, StreamingDrafter):
        yield from server.drafter.stream(server.request)
    elif isinstance(server, StreamingLLM):
        yield from server.stream(messages)
    else:
        yield from _whole(server.complete(messages))


async def _apieces(server: LLM, messages: Sequence[Message]) -> AsyncGenerator[Piece, None]:
    stream: AsyncIterator[Piece]
    if isinstance(server, DraftServer) and isinstance(server.drafter, StreamingDrafter):
        stream = server.drafter.astream(server.request)
    elif isinstance(server, StreamingLLM):
        stream = server.astream(messages)
    else:
        for piece in _whole(await server.acomplete(messages)):
            yield piece
        return
    try:
        async for piece in stream:
            yield piece
    finally:  # a model's connection is not left to the garbage collector
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _whole(reply: Reply) -> Iterator[Piece]:
    """A reply that came in one piece: all else before the text, so that it is there when the text is cut short."""
    if isinstance(reply, Drafted):
        yield from reply.found
        yield reply
        if reply.judge and reply.fields is None:
            yield reply.text
        return
    if reply.usage is not None:
        yield reply.usage
    yield reply.text
