"""One run of the verification loop, shared by engines, chats and agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.schema import NodeWithScore

from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.answer import NO_ANSWER, Outcome, StopReason
from denoise_core.augmenter.traces.record import answer_record, claims_record
from llamaindex_denoise.engines.drafter import EngineDrafter

ErrorPolicy: TypeAlias = Literal["answer", "raise"]
"""After an error without an answer: a text that names its class, or the error."""


class ResponseParts(NamedTuple):
    """Text (or the engine's answer object), sources and metadata of a response."""

    text: Any
    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any]


def run_record(answer: Answer) -> dict[str, Any]:
    """The record of a run as plain JSON, with the verdict on each claim."""
    return {**answer_record(answer), "claims": claims_record(answer)}


@dataclass(frozen=True, slots=True)
class EngineLoopRun:
    """One question to a loop for which an engine drafts.

    Attributes:
        augmenter: The loop.
        question: The question.
        drafter: The engine.
        on_error: What an error without an answer returns.
    """

    augmenter: Augmenter
    question: str
    drafter: EngineDrafter
    on_error: ErrorPolicy = "answer"

    def answer(self) -> Answer:
        """Run the loop."""
        return self.augmenter.answer(self.question, drafter=self.drafter)

    async def aanswer(self) -> Answer:
        """Run the loop."""
        return await self.augmenter.aanswer(self.question, drafter=self.drafter)

    def response_parts(self, answer: Answer) -> ResponseParts:
        """Return the text, sources and metadata of the response.

        Raises:
            Exception: The error of the run, with ``on_error="raise"``.
        """
        text: Any = answer.text
        record = run_record(answer)
        error = self._failure(answer)
        if self.drafter.is_retrieval_only:  # sources without text claim nothing
            text = ""
            record.update(outcome="unknown", stopped_because="unjudged")
        elif error is not None:
            if self.on_error == "raise":
                raise error
            text = NO_ANSWER.format(why=f"the engine failed ({type(error).__name__})")
        if answer.best is None:
            return ResponseParts(text, [], {"denoise": record})
        engine_response = answer.best.origin
        if isinstance(engine_response, PydanticResponse):
            text = engine_response.response
        nodes = list(engine_response.source_nodes)
        # Each source's metadata by id, as LlamaIndex has it.
        metadata = {scored.node.node_id: scored.node.metadata for scored in nodes}
        metadata = {**(engine_response.metadata or {}), **metadata}
        return ResponseParts(text, nodes, {**metadata, "denoise": record})

    def _failure(self, answer: Answer) -> Exception | None:
        """The error that prevented an answer; a spent budget is none."""
        is_failed = answer.outcome is Outcome.FAILED
        if is_failed and answer.stop_reason is StopReason.LLM_ERROR:
            # The engine itself knows of no error if the loop's time for a call was up.
            return self.drafter.last_error or TimeoutError(answer.text)
        return None
