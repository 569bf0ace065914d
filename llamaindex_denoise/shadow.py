"""`ShadowHandler`: an event handler that collects what ``shadow=True`` would drop."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Any

from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.query import (
    QueryEndEvent,
    QueryStartEvent,
)
from llama_index_instrumentation.events.span import SpanDropEvent

from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.shadow import ShadowLog
from llamaindex_denoise.events import ShadowEvent


class ShadowHandler(BaseEventHandler):
    """Collects what postprocessors with ``shadow=True`` would drop, and the answers.

    A request is the outermost ``query`` or ``aquery``; a postprocessor that is called
    outside of one is a request without an answer. The answer of a stream is not known
    here: ``report.log.add_answer(report.log.requests[-1].request_id, text)`` adds it.

        report = ShadowHandler("shadow.jsonl")  # for rag-denoise report shadow.jsonl
        get_dispatcher().add_event_handler(report)

    Args:
        path: JSON lines without any text of the user's.
        meter: An OpenTelemetry meter to count with.
    """

    _log: ShadowLog = PrivateAttr()
    # The outermost query of this thread or task, by its span.
    _request_id: ContextVar[str | None] = PrivateAttr()

    def __init__(self, path: str | Path | None = None, *, meter: Any = None) -> None:
        super().__init__()
        self._log = ShadowLog(path, meter=meter)
        self._request_id = ContextVar("denoise_request", default=None)

    @classmethod
    def class_name(cls) -> str:
        """Return the handler's name."""
        return "ShadowHandler"

    @property
    def log(self) -> ShadowLog:
        """The requests and their summary."""
        return self._log

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Read an event of a query or of a postprocessor."""
        request_id = self._request_id.get()
        if isinstance(event, ShadowEvent):
            self._log.add_call(request_id or event.id_, event.call)
            if request_id is None:
                self._add_answer(event.id_, None)
        elif request_id is None:
            if isinstance(event, QueryStartEvent):
                self._request_id.set(event.span_id)
        elif event.span_id == request_id and isinstance(
            event, (QueryEndEvent, SpanDropEvent)
        ):
            response = getattr(event, "response", None)
            is_known = isinstance(response, (Response, PydanticResponse))  # no stream
            self._request_id.set(None)
            self._add_answer(request_id, str(response) if is_known else None)

    def _add_answer(self, request_id: str, answer: str | None) -> None:
        try:
            self._log.add_answer(request_id, answer)
        except Exception as error:  # LlamaIndex would swallow it
            log_fallback("ShadowHandler", error, "the request is not written")
