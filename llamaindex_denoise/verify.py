"""One run of the verification loop, shared by engines, chats and agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index_instrumentation import get_dispatcher

from denoise_core import Budget, InputError, Message
from denoise_core.augmenter import Answer, Augmenter, LoopLimits
from denoise_core.augmenter.answer import NO_ANSWER, Outcome, StopReason
from denoise_core.augmenter.drafting.drafter import Drafter
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


@dataclass(frozen=True, slots=True)
class EngineLoopRun:
    """One question to a loop.

    Attributes:
        augmenter: The loop.
        question: The question.
        drafter: Who drafts.
        history: The conversation before the question.
        on_error: What an error without an answer returns.
    """

    augmenter: Augmenter
    question: str
    drafter: Drafter
    history: Sequence[Message] = ()
    on_error: ErrorPolicy = "answer"

    def answer(self) -> Answer:
        """Run the loop."""
        return self.augmenter.answer(self.question, self.history, drafter=self.drafter)

    async def aanswer(self) -> Answer:
        """Run the loop."""
        return await self.augmenter.aanswer(
            self.question, self.history, drafter=self.drafter
        )

    def run_to_response(self) -> ResponseParts:
        """Run the loop and return the parts of the response."""
        return self.response_parts(self.answer())

    async def arun_to_response(self) -> ResponseParts:
        """Run the loop and return the parts of the response."""
        return self.response_parts(await self.aanswer())

    @property
    def _engine_drafter(self) -> EngineDrafter | None:
        return self.drafter if isinstance(self.drafter, EngineDrafter) else None

    def emit_record(self, answer: Answer) -> dict[str, Any]:
        """Send the run's record to LlamaIndex's instrumentation and return it.

        Raises:
            Exception: The error of the run, with ``on_error="raise"``.
        """
        run_record = {**answer_record(answer), "claims": claims_record(answer)}
        failure = self._failure(answer)
        engine_drafter = self._engine_drafter
        if engine_drafter is not None and engine_drafter.is_retrieval_only:
            # Sources without text claim nothing.
            run_record.update(outcome="unknown", stopped_because="unjudged")
        elif failure is not None:
            part, error = failure
            if self.on_error == "raise":
                raise error
            run_record["failed"] = {"part": part, "error": type(error).__name__}
        dispatcher.event(AnswerEvent(record=run_record))
        return run_record

    def response_parts(self, answer: Answer) -> ResponseParts:
        """Return the text, sources and metadata of the response."""
        run_record = self.emit_record(answer)
        text = self._shown_text(answer, run_record)
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

    def _shown_text(self, answer: Answer, run_record: dict[str, Any]) -> Any:
        if "failed" in run_record:
            failed_attempts = run_record["failed"]
            return NO_ANSWER.format(
                why=f"{failed_attempts['part']} failed ({failed_attempts['error']})"
            )
        engine_drafter = self._engine_drafter
        if engine_drafter is not None and engine_drafter.is_retrieval_only:
            return ""
        return answer.text

    def _failure(self, answer: Answer) -> tuple[str, Exception] | None:
        """The part that prevented an answer and its error; None if nothing failed.

        A spent budget is not a failure.
        """
        engine_drafter = self._engine_drafter
        if engine_drafter is None or answer.stop_reason is not StopReason.LLM_ERROR:
            return None
        return engine_drafter.failed_part if answer.outcome is Outcome.FAILED else None
