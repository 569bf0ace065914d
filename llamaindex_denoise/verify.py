"""The step below every front door: a draft is judged, asked for again, and the verdict told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
"""What an error gives that leaves nothing to send: an answer that says which part failed, or the error itself."""

UnsupportedPolicy: TypeAlias = Literal["send", "abstain"]


def build_augmenter(
    judge: Any = None,
    budget: Budget | None = None,
    limits: LoopLimits | None = None,
    unsupported: UnsupportedPolicy | None = None,
    *,
    augmenter: Augmenter | None = None,
    **parts: Any,
) -> Augmenter:
    """``augmenter``, or one of the settings that `Checked` takes, with ``parts`` more. Raises `InputError` for
    both at once."""
    given = {
        "judge": judge,
        "budget": budget,
        "limits": limits,
        "unsupported": unsupported,
    }
    named = [name for name, value in given.items() if value is not None]
    if augmenter is not None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(
                f"augmenter: expected a denoise_core Augmenter, got {type(augmenter).__name__}"
            )
        if named:
            raise InputError(
                f"{', '.join(named)}: say it to the augmenter: Augmenter({named[0]}=...)"
            )
        return augmenter
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(
            f"budget: expected a Budget such as Budget(calls=8), got {type(budget).__name__}"
        )
    if limits is not None and not isinstance(limits, LoopLimits):
        raise InputError(
            f"limits: expected LoopLimits(attempts=2) or the like, got {type(limits).__name__}"
        )
    if unsupported is not None:
        limits = replace(limits or LoopLimits(), unsupported=unsupported)
    judge = (
        LlamaLLM(judge) if isinstance(judge, LLM) else judge
    )  # a model judges by its quotes
    return Augmenter(judge=judge, budget=budget, limits=limits, **parts)


class ResponseParts(NamedTuple):
    """Text (or the object, where an engine gives one), sources and metadata of a response."""

    text: Any
    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EngineLoopRun:
    """One question to a loop, with who drafts for it; ``extra`` are source nodes that stand behind no text."""

    augmenter: Augmenter
    question: str
    drafter: Drafter | None = None
    history: Sequence[Message] = ()
    extra_nodes: list[NodeWithScore] = field(default_factory=list)
    on_error: ErrorPolicy = "answer"

    def answer(self) -> Answer:
        return self.augmenter.answer(self.question, self.history, drafter=self.drafter)

    async def aanswer(self) -> Answer:
        return await self.augmenter.aanswer(
            self.question, self.history, drafter=self.drafter
        )

    def run_to_response(self) -> ResponseParts:
        """The answer to send, verified."""
        return self.response_parts(self.answer())

    async def arun_to_response(self) -> ResponseParts:
        return self.response_parts(await self.aanswer())

    def emit_record(self, answer: Answer) -> dict[str, Any]:
        """The record of the run, told to LlamaIndex's instrumentation. Raises what failed under "raise"."""
        note = {**answer_record(answer), "claims": claims_record(answer)}
        if (
            isinstance(self.drafter, EngineDrafter) and self.drafter.is_retrieval_only
        ):  # sources alone: nothing was claimed
            note.update(outcome="unknown", stopped_because="unjudged")
        elif (
            answer.outcome is Outcome.FAILED
            and (failed := self._failed(answer)) is not None
        ):
            part, error = failed
            if self.on_error == "raise":
                raise (
                    error
                    if isinstance(error, Exception)
                    else RuntimeError(f"{part} failed: {error}")
                )
            name = (
                type(error).__name__
                if isinstance(error, Exception)
                else error.partition(":")[0]
            )
            note["failed"] = {"part": part, "error": name}
        dispatcher.event(AnswerEvent(record=note))
        return note

    def response_parts(self, answer: Answer) -> ResponseParts:
        """What a response is made of."""
        note, text, best = self.emit_record(answer), answer.text, answer.best
        if isinstance(self.drafter, EngineDrafter):
            text = (
                ""
                if self.drafter.is_retrieval_only
                else self.drafter.restore_headings(text)
            )
        if "failed" in note:
            text = NO_ANSWER.format(
                why="{part} failed ({error})".format(**note["failed"])
            )
        drafted = best.origin if best else None
        if drafted is not None and hasattr(drafted, "source_nodes"):
            nodes = [*drafted.source_nodes, *self.extra_nodes]
            metadata = {**(drafted.metadata or {}), **response_metadata(nodes, note)}
            return ResponseParts(
                drafted.response if isinstance(drafted, PydanticResponse) else text,
                nodes,
                metadata,
            )
        evidence = best.evidence if best else answer.memory.evidence
        nodes = [
            *evidence_nodes(answer.memory.question, evidence, answer.memory.retrieved),
            *self.extra_nodes,
        ]
        return ResponseParts(text, nodes, response_metadata(nodes, note))

    def _failed(self, answer: Answer) -> tuple[str, Exception | str] | None:
        """The part that left a run without an answer, and its error, of a loop of our own what the record says of
        it; None where nothing failed (a spent budget)."""
        if answer.stop_reason not in (StopReason.LLM_ERROR, StopReason.RETRIEVER_ERROR):
            return None
        if (
            isinstance(self.drafter, EngineDrafter)
            and self.drafter.failed_part is not None
        ):
            return self.drafter.failed_part
        part = (
            "the model"
            if answer.stop_reason is StopReason.LLM_ERROR
            else "the retriever"
        )
        return part, answer.memory.failures[-1][
            1
        ] if answer.memory.failures else "no reason was noted"


def evidence_nodes(
    question: str, evidence: Sequence[Passage], retrieved: Sequence[Passage]
) -> list[NodeWithScore]:
    """The nodes of what was retrieved, as they stand in the evidence."""
    return to_nodes(
        retrieved, DenoiseResult(question, tuple(evidence)), method="Augmenter"
    )
