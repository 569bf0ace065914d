"""One run of the verification loop, shared by engines, chats and agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index_instrumentation import get_dispatcher

from denoise_core import Budget, DenoiseResult, InputError, Message, Passage
from denoise_core.augmenter import Answer, Augmenter, LoopLimits
from denoise_core.augmenter.answer import NO_ANSWER, Outcome, StopReason
from denoise_core.augmenter.drafting.drafter import Drafter
from denoise_core.augmenter.traces.record import answer_record, claims_record
from llamaindex_denoise.engines.base import response_metadata
from llamaindex_denoise.engines.drafter import EngineDrafter
from llamaindex_denoise.events import AnswerEvent
from llamaindex_denoise.models.llm import LlamaLLM
from llamaindex_denoise.nodes.convert import to_nodes

dispatcher = get_dispatcher(__name__)

ErrorPolicy: TypeAlias = Literal["answer", "raise"]
"""After an error without an answer: a text that names the failed part, or the error."""

UnsupportedPolicy: TypeAlias = Literal["send", "abstain"]

_FAILED_PARTS = {
    StopReason.LLM_ERROR: "the model",
    StopReason.RETRIEVER_ERROR: "the retriever",
}


def build_augmenter(
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    unsupported: UnsupportedPolicy | None = None,
    *,
    augmenter: Augmenter | None = None,
    **parts: Any,
) -> Augmenter:
    """Return ``augmenter``, or one with the settings of `Checked` and ``parts``.

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
    augmenter = Augmenter(judge=judge, budget=budget, limits=limits, **parts)
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
        drafter: Who drafts; None is the loop's own drafter.
        history: The conversation before the question.
        extra_nodes: Source nodes that have no text.
        on_error: What an error without an answer returns.
    """

    augmenter: Augmenter
    question: str
    drafter: Drafter | None = None
    history: Sequence[Message] = ()
    extra_nodes: list[NodeWithScore] = field(default_factory=list)
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
            if isinstance(error, Exception):
                error_name = type(error).__name__
            else:
                error_name = error.partition(":")[0]
                error = RuntimeError(f"{part} failed: {error}")
            if self.on_error == "raise":
                raise error
            run_record["failed"] = {"part": part, "error": error_name}
        dispatcher.event(AnswerEvent(record=run_record))
        return run_record

    def response_parts(self, answer: Answer) -> ResponseParts:
        """Return the text, sources and metadata of the response."""
        run_record = self.emit_record(answer)
        best_draft = answer.best
        text = self._shown_text(answer, run_record)
        engine_response = best_draft.origin if best_draft else None
        if engine_response is not None and hasattr(engine_response, "source_nodes"):
            nodes = [*engine_response.source_nodes, *self.extra_nodes]
            metadata = response_metadata(nodes, run_record)
            if isinstance(engine_response, PydanticResponse):
                text = engine_response.response
            engine_metadata = engine_response.metadata or {}
            return ResponseParts(text, nodes, {**engine_metadata, **metadata})
        memory = answer.memory
        evidence = best_draft.evidence if best_draft else memory.evidence
        nodes = evidence_nodes(memory.question, evidence, memory.retrieved)
        nodes += self.extra_nodes
        return ResponseParts(text, nodes, response_metadata(nodes, run_record))

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

    def _failure(self, answer: Answer) -> tuple[str, Exception | str] | None:
        """The part that prevented an answer and its error; None if nothing failed.

        The loop's own parts leave the error's text in the record. A spent budget is not
        a failure.
        """
        stop_reason = answer.stop_reason
        if answer.outcome is not Outcome.FAILED or stop_reason not in _FAILED_PARTS:
            return None
        engine_drafter = self._engine_drafter
        if engine_drafter is not None and engine_drafter.failed_part is not None:
            return engine_drafter.failed_part
        failures = answer.memory.failures
        reason = failures[-1][1] if failures else "no reason was recorded"
        return _FAILED_PARTS[stop_reason], reason


def evidence_nodes(
    question: str, evidence: Sequence[Passage], retrieved: Sequence[Passage]
) -> list[NodeWithScore]:
    """Return the retrieved nodes with the text that the evidence has of them."""
    denoise_result = DenoiseResult(question, tuple(evidence))
    return to_nodes(retrieved, denoise_result, method="Augmenter")
