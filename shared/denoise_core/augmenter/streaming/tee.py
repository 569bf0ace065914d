"""The tee: drafts go through it piece by piece, past a watcher that says what to show and may end the draft."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from denoise_core.augmenter.drafting.drafter import Drafted, DraftServer, Found, StreamingDrafter
from denoise_core.augmenter.drafting.taint import evidence_of
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.streaming.watch import Emit, Restarted, StreamingLLM, Text, Watcher
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import arun, run
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

    def serving(self, memory: WorkingMemory, server: LLM | None) -> TeedLLM:
        """``server`` (None: the model of the loop) with what it writes from ``memory`` going through the tee."""
        given = server or self.llm
        assert given is not None, "the loop asks nobody to write without a model or a drafter"
        self.watcher.memory = memory
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


class TeedLLM:
    """One draft's server behind the tee, in the place of an LLM.

    ``unseen`` once nothing more of the draft is shown but it is read to its end.
    """

    def __init__(self, tee: Tee, server: LLM) -> None:
        self.tee = tee
        self.server = server
        self.inner: list[Event] = []
        self.text = ""
        self.unseen = False
        self.usage: Usage | None = None
        self.found: list[Found] = []
        self.drafted: Drafted | None = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self.tee.lock:
            mine = self.tee.begin()
        try:
            for piece in _pieces(self.server, messages):
                if not self._told(self._taken(piece), mine):
                    break
            else:
                self._told(self._ended(), mine)
            return self._reply()
        except BaseException:
            self.tee.lost += self.inner
            raise

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        self.tee.begin()
        try:
            async with aclosing(_apieces(self.server, messages)) as pieces:
                async for piece in pieces:
                    if not await self._atold(self._taken(piece)):
                        break
                else:
                    await self._atold(self._ended())
            return self._reply()
        except BaseException:
            self.tee.lost += self.inner
            raise

    def _told(self, flow: Flow[bool], draft: int) -> bool:
        with self.tee.lock:
            self.tee.check(draft)
            goes_on, trace = run(flow, llm=self.tee.llm)
            self.inner += trace.events
            return goes_on

    async def _atold(self, flow: Flow[bool]) -> bool:
        goes_on, trace = await arun(flow, llm=self.tee.llm)
        self.inner += trace.events
        return goes_on

    def _taken(self, piece: Piece) -> Flow[bool]:
        """One piece more of the draft; False where the draft is to be ended here."""
        watcher = self.tee.watcher
        if isinstance(piece, Usage):
            self.usage = piece
        elif isinstance(piece, Found):
            memory = watcher.memory
            counts, _ = evidence_of(Drafted("", found=(piece,)), memory)
            known = {p.text for p in memory.evidence}
            fresh = tuple(p for p in counts if p.text not in known)
            watcher.memory = replace(memory, evidence=(*memory.evidence, *fresh))
            self.found.append(piece)
        elif isinstance(piece, Drafted):
            self.drafted = piece
        else:
            self.text += piece
            if not self.unseen and not self._shown((yield from watcher.more(piece))):
                # It is ended early unless whoever writes it would leave something half done outside.
                self.unseen = isinstance(self.server, DraftServer) and not self.server.drafter.repeatable
                return self.unseen
        return True

    def _ended(self) -> Flow[bool]:
        return self.unseen or self._shown((yield from self.tee.watcher.end()))

    def _shown(self, released: tuple[str, bool]) -> bool:
        text, goes_on = released
        if text:
            self.tee.emit(Text(text))
        return goes_on

    def _reply(self) -> Reply:
        seen, inner = self.tee.watcher.text, tuple(self.inner)
        if self.drafted is not None:
            return replace(self.drafted, text=self.drafted.text or seen, inner=(*self.drafted.inner, *inner))
        text = self.text if self.unseen else seen
        if isinstance(self.server, DraftServer):
            return Drafted(text, self.usage, found=tuple(self.found), inner=inner)
        return Reply(text, self.usage, inner=inner)


def _pieces(server: LLM, messages: Sequence[Message]) -> Iterator[Piece]:
    if isinstance(server, DraftServer) and isinstance(server.drafter, StreamingDrafter):
        yield from server.drafter.stream(server.request)
    elif isinstance(server, StreamingLLM):
        yield from server.stream(messages)
    else:
        yield from _whole(server.complete(messages))


async def _apieces(server: LLM, messages: Sequence[Message]) -> AsyncGenerator[Piece, None]:
    stream: AsyncIterator[Piece] | None = None
    if isinstance(server, DraftServer) and isinstance(server.drafter, StreamingDrafter):
        stream = server.drafter.astream(server.request)
    elif isinstance(server, StreamingLLM):
        stream = server.astream(messages)
    try:
        if stream is not None:
            async for piece in stream:
                yield piece
        else:
            for piece in _whole(await server.acomplete(messages)):
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
