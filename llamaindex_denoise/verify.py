"""One run of the verification loop, shared by engines, chats and agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index_instrumentation import get_dispatcher

from denoise_core import Budget, InputError
from denoise_core.augmenter import Answer, Augmenter, LoopLimits
from denoise_core.augmenter.answer import NO_ANSWER, Outcome, StopReason
from denoise_core.augmenter.traces.record import answer_record, claims_record
from llamaindex_denoise.engines.drafter import EngineDrafter
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.models.llm import LlamaLLM

dispatcher = get_dispatcher(__name__)

ErrorPolicy: TypeAlias = Literal["answer", "raise"]
"""After an error without an answer: a text that names the failed part, or the error."""

UnsupportedPolicy: TypeAlias = Literal["send", "abstain"]


def build_augmenter(
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    unsupported: UnsupportedPolicy | None = None,
    *,
    augmenter: Augmenter | None = None,
) -> Augmenter:
    """Return ``augmenter``, or one with the settings of `Checked`.

    Raises:
        InputError: Both are given, or a setting has the wrong type.
    """
    if augmenter is not None:
        settings = {
            "judge": judge,
            "budget": budget,
            "limits": limits,
            "unsupported": unsupported,
        }
        names = [name for name, value in settings.items() if value is not None]
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                "augmenter: expected a denoise_core Augmenter, got "
                f"{type(augmenter).__name__}"
            )
        if names:
            raise InputError(
                f"{', '.join(names)}: give it to the augmenter: "
                f"Augmenter({names[0]}=...)"
            )
        return augmenter
    if isinstance(judge, LLM):
        judge = LlamaLLM(judge)  # the core makes a judge of a model
    augmenter = Augmenter(judge=judge, budget=budget, limits=limits)
    if unsupported is None:
        return augmenter
    return augmenter.with_limits(unsupported=unsupported)


class ResponseParts(NamedTuple):
    """Text (or the engine's answer object), sources and metadata of a response."""

    text: Any
    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any]


def emit_record(answer: Answer, **changes: Any) -> dict[str, Any]:
    """Send a run's record to LlamaIndex's instrumentation and return it.

    Args:
        answer: What the loop returned.
        **changes: Entries that replace those of the record.
    """
    run_record = {**answer_record(answer), "claims": claims_record(answer), **changes}
    dispatcher.event(AnswerEvent(record=run_record))
    return run_record


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
        changes: dict[str, Any] = {}
        failure = self._failure(answer)
        if self.drafter.is_retrieval_only:  # sources without text claim nothing
            text = ""
            changes = {"outcome": "unknown", "stopped_because": "unjudged"}
        elif failure is not None:
            part, error = failure
            if self.on_error == "raise":
                raise error
            error_name = type(error).__name__
            text = NO_ANSWER.format(why=f"{part} failed ({error_name})")
            changes = {"failed": {"part": part, "error": error_name}}
        run_record = emit_record(answer, **changes)
        if answer.best is None:
            return ResponseParts(text, [], {"denoise": run_record})
        engine_response = answer.best.origin
        if isinstance(engine_response, PydanticResponse):
            text = engine_response.response
        nodes = list(engine_response.source_nodes)
        # Each source's metadata by id, as LlamaIndex has it.
        metadata = {scored.node.node_id: scored.node.metadata for scored in nodes}
        metadata = {**(engine_response.metadata or {}), **metadata}
        return ResponseParts(text, nodes, {**metadata, "denoise": run_record})

    def _failure(self, answer: Answer) -> tuple[str, Exception] | None:
        """The part that prevented an answer and its error; None if nothing failed.

        A spent budget is not a failure.
        """
        is_failed = answer.outcome is Outcome.FAILED
        if is_failed and answer.stop_reason is StopReason.LLM_ERROR:
            return self.drafter.failed_part
        return None
