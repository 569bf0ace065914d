"""The splitter: the text of each draft goes to the loop, and that of the first draft also to the reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    DraftServer,
    StreamingDrafter,
)
from denoise_core.augmenter.streaming.events import (
    StreamEvent,
    StreamingLLM,
    TextReleased,
)
from denoise_core.protocols import LLM
from denoise_core.text.delimit import (
    copies_envelope,
    envelope_markers,
    may_copy_envelope,
)
from denoise_core.types import Message, Reply, Usage

StreamPiece: TypeAlias = str | Usage | DraftReply


class ReaderClosed(BaseException):
    """The reader left: ends the run in its thread, past everything that handles errors."""


class StreamSplitter:
    """Shared by all drafts of one stream.

    A synchronous call that timed out keeps running in its thread until its next piece. Its draft is no longer the
    current one, so the call ends there and shows nothing more.
    """

    def __init__(
        self,
        emit_event: Callable[[StreamEvent], None],
        closed: threading.Event,
        *,
        show_draft: bool,
    ) -> None:
        self.emit_event = emit_event
        self.closed = closed
        self.show_draft = show_draft
        self.shown_text = ""
        self.lock = threading.Lock()
        self._draft_number = 0
        self._is_shown = False

    def wrap_server(self, server: LLM | None) -> SplitLLM:
        """Return ``server`` with its text split between the loop and the reader."""
        assert server is not None, (
            "the loop asks nobody to write without a model or a drafter"
        )
        return SplitLLM(self, server)

    def begin_draft(self) -> int:
        """Start the next draft and return its number. Only the first draft with any text is shown."""
        with self.lock:
            self._draft_number += 1
            self._is_shown = self.show_draft and not self.shown_text
            return self._draft_number

    def check_current(self, draft_number: int) -> None:
        """Raise when the reader left or this draft has timed out. The caller holds the lock."""
        if self.closed.is_set():
            raise ReaderClosed
        if draft_number != self._draft_number:
            raise TimeoutError("this draft has timed out; a later one is being written")

    def show(self, text: str) -> None:
        """Send text of the current draft to the reader, if this draft is the one shown."""
        if text and self._is_shown:
            self.shown_text += text
            released_event = TextReleased(text)
            self.emit_event(released_event)


class EnvelopeFilter:
    """Shows nothing of a line that copies an envelope of the prompt, nor of what follows it.

    A line that may become one is held until it is complete: such a draft counts as none
    (`augmenter.steps`), and a reader must not see it.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._markers = envelope_markers(messages)
        self._held_text = ""
        # The first characters of the present line, if some of it was shown.
        self._shown_start = ""
        self._is_closed = False

    def release(self, piece: str, *, is_last: bool = False) -> str:
        """The text that can be shown now; with ``is_last`` all that is held."""
        text = self._held_text + piece
        line_start = len(text) if is_last else text.rfind("\n") + 1
        whole_lines = text[:line_start]
        lines_shown = self._shown_start + whole_lines
        if self._is_closed or copies_envelope(lines_shown, self._markers):
            self._is_closed = True
            return ""
        if whole_lines:
            self._shown_start = ""
        open_line = text[line_start:]
        self._held_text = ""
        if not self._shown_start and may_copy_envelope(open_line):
            self._held_text = open_line
            return whole_lines
        # What was shown of a line is what made it no delimiter: its start is enough.
        self._shown_start = self._shown_start or open_line
        return text


class SplitLLM:
    """One draft's model or drafter, asked as an LLM."""

    def __init__(self, splitter: StreamSplitter, server: LLM) -> None:
        self.splitter = splitter
        self.server = server
        self._text_pieces: list[str] = []
        self._usage: Usage | None = None
        self._draft_reply: DraftReply | None = None
        self._filter: EnvelopeFilter | None = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Draft, passing on each piece as it arrives."""
        draft_number = self._begin_draft(messages)
        stream = self._open_stream("stream", messages)
        if stream is None:
            whole_reply = self.server.complete(messages)
            return self._show_reply(whole_reply, draft_number)
        try:
            for piece in stream:
                self._take(piece, draft_number)
        finally:  # do not leave a model's connection to the garbage collector
            close = getattr(stream, "close", None)
            if close is not None:
                close()
        return self._assembled_reply(draft_number)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Draft without blocking the event loop."""
        draft_number = self._begin_draft(messages)
        stream = self._open_stream("astream", messages)
        if stream is None:
            whole_reply = await self.server.acomplete(messages)
            return self._show_reply(whole_reply, draft_number)
        try:
            async for piece in stream:
                self._take(piece, draft_number)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return self._assembled_reply(draft_number)

    def _begin_draft(self, messages: Sequence[Message]) -> int:
        if not isinstance(self.server, DraftServer):  # a drafter's prompt is its own
            self._filter = EnvelopeFilter(messages)
        return self.splitter.begin_draft()

    def _open_stream(self, method: str, messages: Sequence[Message]) -> Any:
        """The draft's pieces as an iterator; None when the model or drafter cannot stream."""
        if isinstance(self.server, DraftServer):
            drafter = self.server.drafter
            if isinstance(drafter, StreamingDrafter):
                open_draft = getattr(drafter, method)
                return open_draft(self.server.request)
        elif isinstance(self.server, StreamingLLM):
            open_reply = getattr(self.server, method)
            return open_reply(messages)
        return None

    def _show_reply(self, reply: Reply, draft_number: int) -> Reply:
        """Show a reply that came in one piece, unless it is a step in the middle or structured output."""
        is_text = True
        if isinstance(reply, DraftReply):
            is_text = reply.judge and reply.fields is None
        with self.splitter.lock:
            self.splitter.check_current(draft_number)
            if is_text:
                self._show(reply.text, is_last=True)
        return reply

    def _show(self, text: str, *, is_last: bool = False) -> None:
        """Show what the filter lets through; the caller holds the lock."""
        if self._filter is not None:
            text = self._filter.release(text, is_last=is_last)
        self.splitter.show(text)

    def _take(self, piece: StreamPiece, draft_number: int) -> None:
        with self.splitter.lock:
            self.splitter.check_current(draft_number)
            match piece:
                case Usage():
                    self._usage = piece
                case DraftReply():
                    self._draft_reply = piece
                case _:
                    self._text_pieces.append(piece)
                    self._show(piece)

    def _assembled_reply(self, draft_number: int) -> Reply:
        with self.splitter.lock:
            self.splitter.check_current(draft_number)
            self._show("", is_last=True)
        streamed_text = "".join(self._text_pieces)
        draft_reply = self._draft_reply
        if draft_reply is not None:
            draft_text = draft_reply.text or streamed_text
            return replace(draft_reply, text=draft_text)
        return Reply(streamed_text, self._usage)
