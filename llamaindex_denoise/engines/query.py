"""`CheckedQueryEngine`: a query engine around another, whose answers are checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from typing import Any, Literal, TypeAlias

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle

from denoise_core import InputError
from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    StreamEvent,
    TextReleased,
    stream_verified,
)
from llamaindex_denoise.engines.base import (
    AsyncDraftResponse,
    DraftResponse,
    astream_whole,
    stream_whole,
)
from llamaindex_denoise.engines.drafter import EngineDrafter, EvidenceSource
from llamaindex_denoise.verify import EngineLoopRun, ErrorPolicy, ResponseParts

StreamingMode: TypeAlias = bool | Literal["draft", "checked"]


class CheckedQueryEngine(BaseQueryEngine):
    """`Checked` of a query engine; keeps its retrieval, synthesizer and prompts.

    An answer is one run of the loop. ``response.metadata["denoise"]`` says how far to
    trust it (``outcome``: supported, partly supported, unsupported, unknown, abstained
    or failed), why the loop stopped, and what each attempt was and cost.
    ``source_nodes`` are the nodes that the answer was written from; a citation ``[n]``
    names the n-th of them. Structured output keeps its type and is checked field by
    field. An answer about which nothing is known is passed on unchanged.

    An engine without ``retrieve`` and ``synthesize`` is called once, and its answer
    is judged; ``LoopLimits(rerun=True)`` calls it again.

    Args:
        query_engine: The engine whose answers are checked.
        augmenter: The loop.
        evidence: Replaces the ``source_nodes`` of each response.
        streaming: ``"checked"`` (or True) streams the judged text, ``"draft"`` the
            first draft as it is written. If the answer differs from what was shown, it
            follows after an empty line; ``get_response()`` returns the answer alone.
        on_error: ``"raise"`` raises the error that prevented an answer; ``"answer"``
            returns a text that names its class; the record's ``failures`` say more.
    """

    def __init__(
        self,
        query_engine: BaseQueryEngine,
        augmenter: Augmenter,
        *,
        evidence: EvidenceSource | None = None,
        streaming: StreamingMode = False,
        on_error: ErrorPolicy = "answer",
    ) -> None:
        if streaming not in (False, True, "draft", "checked"):
            raise InputError(
                f"streaming={streaming!r}: expected False, True, 'draft' or 'checked'"
            )
        if on_error not in ("answer", "raise"):
            raise InputError(f"on_error={on_error!r}: expected 'answer' or 'raise'")
        super().__init__(query_engine.callback_manager)
        self.query_engine = query_engine
        self.augmenter = augmenter
        self.evidence = evidence
        self.streaming: StreamingMode = streaming
        self.on_error: ErrorPolicy = on_error

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self.query_engine}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        loop_run = self._loop_run(query_bundle)
        response: RESPONSE_TYPE
        with self._query_event(query_bundle) as event:
            if self.streaming == "draft":
                response = _stream_draft(loop_run)
            else:
                answer_parts = loop_run.response_parts(loop_run.answer())
                response = self._build_response(answer_parts)
            event.on_end({EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        loop_run = self._loop_run(query_bundle)
        response: RESPONSE_TYPE
        with self._query_event(query_bundle) as event:
            if self.streaming == "draft":
                response = _astream_draft(loop_run)
            else:
                answer_parts = loop_run.response_parts(await loop_run.aanswer())
                response = self._build_response(answer_parts, is_async=True)
            event.on_end({EventPayload.RESPONSE: response})
        return response

    def _query_event(self, query_bundle: QueryBundle) -> Any:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        return self.callback_manager.event(CBEventType.QUERY, payload)

    def _loop_run(self, query_bundle: QueryBundle) -> EngineLoopRun:
        drafter = EngineDrafter(self.query_engine, query_bundle, self.evidence)
        return EngineLoopRun(
            self.augmenter, query_bundle.query_str, drafter, on_error=self.on_error
        )

    def _build_response(
        self, answer_parts: ResponseParts, *, is_async: bool = False
    ) -> RESPONSE_TYPE:
        text, nodes, metadata = answer_parts
        if isinstance(text, BaseModel):
            return PydanticResponse(text, nodes, metadata)
        if not self.streaming:
            return Response(text, nodes, metadata)
        if is_async:
            return AsyncStreamingResponse(astream_whole(text), nodes, metadata)
        return StreamingResponse(stream_whole(text), nodes, metadata)


def _stream_draft(loop_run: EngineLoopRun) -> DraftResponse:
    """Start the run, and raise its errors, when the response is read."""

    def shown_text() -> Generator[str, None, None]:
        for event in _stream_events(loop_run):
            yield from _show_event(event, response, loop_run)

    response = DraftResponse(shown_text())
    return response


def _astream_draft(loop_run: EngineLoopRun) -> AsyncDraftResponse:
    """Do the same for async."""

    async def shown_text() -> AsyncGenerator[str, None]:
        # Closing the events ends the run of a reader that stops early.
        async with aclosing(aiter(_stream_events(loop_run))) as events:
            async for event in events:
                for text in _show_event(event, response, loop_run):
                    yield text

    response = AsyncDraftResponse(shown_text())
    return response


def _stream_events(loop_run: EngineLoopRun) -> Any:
    return stream_verified(
        loop_run.augmenter, loop_run.question, drafter=loop_run.drafter
    )


def _show_event(
    event: StreamEvent,
    response: DraftResponse | AsyncDraftResponse,
    loop_run: EngineLoopRun,
) -> Iterator[str]:
    """Yield what the reader sees of an event; the last one completes the response."""
    if isinstance(event, TextReleased):
        yield event.text
    elif isinstance(event, (Finished, Revised)):
        text, response.source_nodes, response.metadata = loop_run.response_parts(
            event.answer
        )
        response.answer_text = str(text)
        if isinstance(event, Revised):
            if event.shown_text:
                yield "\n\n"
            yield response.answer_text
