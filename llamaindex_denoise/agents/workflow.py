"""`AugmentedWorkflow`: the loop as a LlamaIndex workflow whose state can be stored and resumed at every turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.schema import NodeWithScore
from llama_index.core.storage.docstore.utils import doc_to_json, json_to_doc
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from denoise_core import Budget, DenoiseResult, InputError, Passage, Trace, arun
from denoise_core.augmenter import Answer, Augmenter, WorkingMemory
from denoise_core.augmenter.traces.plain import memory_from_json, memory_to_json
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.running.effects import Complete, Retrieve
from denoise_core.running.record import calls_of
from llamaindex_denoise.engines.base import messages_of, response_metadata
from llamaindex_denoise.nodes.convert import to_nodes
from llamaindex_denoise.nodes.headers import NodeMetadata, source_of


class AskEvent(StartEvent):
    """A question, and the messages before it: `ChatMessage`s, or ``{"role": ..., "content": ...}``."""

    question: str
    history: list[dict[str, str]] = Field(default_factory=list)

    @field_validator("history", mode="before")
    @classmethod
    def _plain(cls, history: Any) -> Any:
        """LlamaIndex's messages, and the core's, as plain JSON; what tools said is left out."""
        if isinstance(history, (list, tuple)) and all(isinstance(m, dict) for m in history):
            return history
        return [{"role": m.role, "content": m.content} for m in messages_of(history)]


class TurnEvent(Event):
    """The state between two turns, plain JSON: ``memory`` with its nodes, and what has been spent."""

    memory: dict[str, Any]
    nodes: dict[str, Any] = Field(default_factory=dict)
    spent: dict[str, float] = Field(default_factory=dict)


class ProgressEvent(Event):
    """In the stream at the beginning of each turn: the last action and the number of attempts, no draft's text.

    A context stored at this moment holds everything up to ``last_action`` (None at the very beginning).
    """

    last_action: str | None
    attempts: int


class AnsweredEvent(StopEvent):
    """The end: text, which it prints as, outcome, the record of the run, its memory and nodes; plain JSON."""

    text: str
    outcome: str
    record: dict[str, Any]
    memory: dict[str, Any]
    nodes: dict[str, Any] = Field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def response(self) -> Response:
        """As a query engine would have given it: source nodes are those the answer was written from."""
        memory = _with_nodes(memory_from_json(self.memory), self.nodes)
        evidence = memory.best.evidence if memory.best else memory.evidence
        nodes = to_nodes(memory.retrieved, DenoiseResult(memory.question, evidence), by="Augmenter")
        return Response(self.text, nodes, response_metadata(nodes, self.record))


class AugmentedWorkflow(Workflow):
    """Runs an `Augmenter` turn by turn: search, draft, readmit, send, one event each.

    ``result = await AugmentedWorkflow(augmenter).run(question=...)`` gives an `AnsweredEvent`. Between turns the
    whole state is in one event of plain JSON, so a context stored with ``ctx.to_dict()`` can be restored in
    another process and goes on where it stood, with what was spent counted; a turn that was under way is
    done again. Model, retriever and settings are
    not part of the state: they are the augmenter's, and are given again.
    """

    def __init__(self, augmenter: Augmenter, *, timeout: float | None = None, verbose: bool = False) -> None:
        if not isinstance(augmenter, Augmenter):
            raise InputError(f"expected a denoise_core Augmenter, got {type(augmenter).__name__}")
        super().__init__(timeout=timeout, verbose=verbose)
        self.augmenter = augmenter

    @step
    async def begin(self, ev: AskEvent) -> TurnEvent:
        """The first step: a memory of the question; `InputError` if it is blank."""
        if not ev.question.strip():
            raise InputError("question: expected a text that is not blank")
        empty = memory_to_json(WorkingMemory(ev.question))
        return TurnEvent(memory={**empty, "history": ev.history})

    @step
    async def turn(self, ctx: Context, ev: TurnEvent) -> TurnEvent | AnsweredEvent:
        """One step of the loop; the memory goes on as JSON, so that a run can be stopped and resumed."""
        a = self.augmenter
        memory = _with_nodes(memory_from_json(ev.memory), ev.nodes)
        last = type(memory.actions[-1]).__name__ if memory.actions else None
        ctx.write_event_to_stream(ProgressEvent(last_action=last, attempts=len(memory.attempts)))
        started = time.monotonic()
        state, trace = await arun(
            a.turn(memory), llm=a.llm, budget=_left(a.budget, ev.spent), call_seconds=a.limits.call_seconds
        )
        spent = _add(ev.spent, a.budget, trace, time.monotonic() - started)
        if isinstance(state, WorkingMemory):
            return TurnEvent(memory=memory_to_json(state), nodes=_nodes_of(state), spent=spent)
        return _answered(state, spent)


def _answered(answer: Answer, spent: Mapping[str, float]) -> AnsweredEvent:
    note = answer_record(answer)
    note.update(
        calls=int(spent["completions"]),
        input_tokens=int(spent["input"]),
        output_tokens=int(spent["output"]),
        tokens_estimated=bool(spent["estimated"]),
    )
    return AnsweredEvent(
        text=answer.text,
        outcome=str(answer.outcome),
        record=note,
        memory=memory_to_json(answer.memory),
        nodes=_nodes_of(answer.memory),
    )


def _left(budget: Budget | None, spent: Mapping[str, float]) -> Budget | None:
    """The budget without what earlier turns took of it."""
    if budget is None:
        return None

    def less(limit: float | None, name: str) -> float | None:
        return None if limit is None else max(0.0, limit - spent.get(name, 0.0))

    calls, tokens = less(budget.calls, "calls"), less(budget.tokens, "tokens")
    return replace(
        budget,
        calls=None if calls is None else int(calls),
        tokens=None if tokens is None else int(tokens),
        seconds=less(budget.seconds, "seconds"),
        money=less(budget.money, "money"),
    )


def _add(spent: Mapping[str, float], budget: Budget | None, trace: Trace, seconds: float) -> dict[str, float]:
    usage = trace.usage
    took = {
        "calls": sum(isinstance(e.effect, (Complete, Retrieve)) for e in trace.events),
        "completions": calls_of(trace),
        "tokens": usage.total,
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "estimated": float(usage.estimated),
        "seconds": seconds,
        "money": budget.price.of(usage) if budget and budget.price else 0.0,
    }
    return {name: spent.get(name, 0.0) + value for name, value in took.items()}


def _nodes_of(memory: WorkingMemory) -> dict[str, Any]:
    """The nodes behind the memory's passages, by passage id; LlamaIndex's own JSON, without vectors."""
    found: dict[str, Any] = {}
    for p in (*memory.retrieved, *memory.evidence, *(e for a in memory.attempts for e in a.evidence)):
        source = source_of(p)
        if source is not None and p.id not in found:
            bare = source.node.model_copy(update={"embedding": None})
            found[p.id] = {"node": doc_to_json(bare), "score": source.score}
    return found


def _with_nodes(memory: WorkingMemory, nodes: Mapping[str, Any]) -> WorkingMemory:
    """The memory with its passages tied to their nodes again."""
    sources = {i: NodeWithScore(node=json_to_doc(n["node"]), score=n["score"]) for i, n in nodes.items()}

    def tied(passages: Sequence[Passage]) -> tuple[Passage, ...]:
        return tuple(replace(p, metadata=NodeMetadata(sources[p.id])) if p.id in sources else p for p in passages)

    return replace(
        memory,
        retrieved=tied(memory.retrieved),
        evidence=tied(memory.evidence),
        attempts=tuple(replace(a, evidence=tied(a.evidence)) for a in memory.attempts),
    )
