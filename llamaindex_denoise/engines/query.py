"""`CheckedQueryEngine`: a query engine around another, whose answers are checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from typing import Any, Literal, TypeAlias, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import QueryBundle

from denoise_core._frameworks import check_choice
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
    response_text,
    stream_whole,
)
from llamaindex_denoise.engines.drafter import EngineDrafter, EvidenceSource
from llamaindex_denoise.verify import ErrorPolicy, final_response

StreamingMode: TypeAlias = Literal[False, True, "draft", "checked"]


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
        streaming: False reads an engine that streams to its end. ``"checked"`` (or
            True) streams the judged text, ``"draft"`` the first draft as it is written,
            once the response is read. If the answer differs from what was shown, it
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
        check_choice("streaming", streaming, *get_args(StreamingMode))
        check_choice("on_error", on_error, *get_args(ErrorPolicy))
        super().__init__(query_engine.callback_manager)
        self.query_engine = query_engine
        self.augmenter = augmenter
        self.evidence = evidence
        self.streaming: StreamingMode = streaming
        self.on_error: ErrorPolicy = on_error

    def _get_prompt_modules(self) -> PromptMixinType:
        return self.query_engine._get_prompt_modules()

    def _get_prompts(self) -> PromptDictType:
        return self.query_engine._get_prompts()

    def _update_prompts(self, prompts: PromptDictType) -> None:
        self.query_engine._update_prompts(prompts)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        drafter = EngineDrafter(self.query_engine, query_bundle, self.evidence)
        response: RESPONSE_TYPE
        with self._query_event(query_bundle) as event:
            if self.streaming == "draft":
                response = self._stream_draft(drafter)
            else:
                answer = self.augmenter.answer(query_bundle.query_str, drafter=drafter)
                response = final_response(answer, drafter, self.on_error)
                if self.streaming and isinstance(response, Response):
                    text_stream = stream_whole(response.response or "")
                    response = StreamingResponse(
                        text_stream, response.source_nodes, response.metadata
                    )
            event.on_end({EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        drafter = EngineDrafter(self.query_engine, query_bundle, self.evidence)
        response: RESPONSE_TYPE
        with self._query_event(query_bundle) as event:
            if self.streaming == "draft":
                response = self._astream_draft(drafter)
            else:
                answer = await self.augmenter.aanswer(
                    query_bundle.query_str, drafter=drafter
                )
                response = final_response(answer, drafter, self.on_error)
                if self.streaming and isinstance(response, Response):
                    text_stream = astream_whole(response.response or "")
                    response = AsyncStreamingResponse(
                        text_stream, response.source_nodes, response.metadata
                    )
            event.on_end({EventPayload.RESPONSE: response})
        return response

    def _query_event(self, query_bundle: QueryBundle) -> Any:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        return self.callback_manager.event(CBEventType.QUERY, payload)

    def _stream_draft(self, drafter: EngineDrafter) -> DraftResponse:
        """Start the run, and raise its errors, when the response is read."""

        def shown_text() -> Generator[str, None, None]:
            for event in self._stream_events(drafter):
                yield from self._show_event(event, response, drafter)

        response = DraftResponse(shown_text())
        return response

    def _astream_draft(self, drafter: EngineDrafter) -> AsyncDraftResponse:
        """Do the same for async."""

        async def shown_text() -> AsyncGenerator[str, None]:
            # Closing the events ends the run of a reader that stops early.
            async with aclosing(aiter(self._stream_events(drafter))) as events:
                async for event in events:
                    for text in self._show_event(event, response, drafter):
                        yield text

        response = AsyncDraftResponse(shown_text())
        return response

    def _stream_events(self, drafter: EngineDrafter) -> Any:
        question = drafter.query_bundle.query_str
        return stream_verified(self.augmenter, question, drafter=drafter)

    def _show_event(
        self,
        event: StreamEvent,
        response: DraftResponse | AsyncDraftResponse,
        drafter: EngineDrafter,
    ) -> Iterator[str]:
        """Yield what the reader sees of an event; the last one completes the response."""
        if isinstance(event, TextReleased):
            yield event.text
        elif isinstance(event, (Finished, Revised)):
            answered = final_response(event.answer, drafter, self.on_error)
            response.source_nodes = answered.source_nodes
            response.metadata = answered.metadata
            response.answer_text = response_text(answered)
            # An object that was shown is revised into the same JSON.
            if isinstance(event, Revised) and event.shown_text != response.answer_text:
                if event.shown_text:
                    yield "\n\n"
                yield response.answer_text
