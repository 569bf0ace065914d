"""Agents whose answers are checked: a tool that says how far to trust it, an agent that checks before it ends."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llama_index.core.agent.workflow import (
    AgentInput,
    AgentOutput,
    AgentStream,
    FunctionAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.bridge.pydantic import ConfigDict, Field, model_validator
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import AsyncBaseTool, QueryEngineTool, ToolOutput
from llama_index.core.workflow import Context, Event, StopEvent, step

from denoise_core import Message, Passage
from denoise_core.augmenter import Attempt, Augmenter, Verdict, WorkingMemory
from denoise_core.augmenter.drafting.drafter import Drafted, DraftRequest, Found, Written
from denoise_core.augmenter.drafting.taint import evidence_of
from denoise_core.augmenter.prompts import REVISE
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.text.delimit import envelope
from denoise_core.tool_results import read_result
from llamaindex_denoise.engines.base import messages_of
from llamaindex_denoise.engines.observe import nodes_behind
from llamaindex_denoise.loop import loop_of
from llamaindex_denoise.models.llm import usage_of
from llamaindex_denoise.nodes.convert import says_something, to_passages

if TYPE_CHECKING:  # not there before 0.14, and needed by type checkers alone
    from llama_index.core.agent.workflow.agent_context import AgentContext

STORE_KEY = "denoise"
NO_QUESTION = "(no question)"
HANDOFF = "handoff"  # the tool with which LlamaIndex's workflows pass a conversation on
_REJECTED = "denoise_rejected"  # places in the scratchpad
_RECORDS = "denoise_rejected_records"  # the drafts rejected before the last tool call
_SEEN = "denoise_rejected_after"  # and how many tool calls there were before them


class VerifiedQueryTool(QueryEngineTool):
    """A query engine of ours as a tool that tells the agent the verdict, which ``str(response)`` leaves out.

    A supported answer is given as it is; any other begins with a line that says what it is. Build it with
    ``VerifiedQueryTool.from_defaults(AugmentedQueryEngine(...), name=..., description=...)``.
    """

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """The engine's answer, with a word before it where it does not hold."""
        return _labelled(super().call(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """As `call`, awaited."""
        return _labelled(await super().acall(*args, **kwargs))


def _labelled(output: ToolOutput) -> ToolOutput:
    note = (getattr(output.raw_output, "metadata", None) or {}).get("denoise", {})
    outcome = note.get("outcome")
    if outcome not in ("unsupported", "unknown", "abstained", "failed"):
        return output
    said = f"({outcome}: this answer was not confirmed by its sources)\n{output.content}"
    return ToolOutput(
        content=said,
        tool_name=output.tool_name,
        raw_input=output.raw_input,
        raw_output=output.raw_output,
        is_error=output.is_error,
    )


class VerificationEvent(Event):
    """In the agent's stream, once for every answer: what was checked and how it went; plain JSON."""

    record: dict[str, Any]


class VerifiedFunctionAgent(FunctionAgent):
    """A function agent that holds its final answer against what its tools found before it sends it.

    The loop of ``augmenter`` judges, repairs and asks again, as around an engine; ``judge``, ``budget``,
    ``limits`` and ``unsupported`` make one (`loop_of`). An argument that nothing reads is an error. Only
    the last model call is repeated, with the same tool results. A model that answers feedback with another tool
    call gets it; the drafts of the whole turn count towards ``limits.attempts``. What is sent is the best draft
    since the last tool call; rejected drafts appear neither in the user's stream nor in the memory. An answer
    given without any tool result cannot be checked and is sent as it is, with the outcome "unknown".

    The verdict stands in the stream as a `VerificationEvent` and in ``ctx.store`` under ``"denoise"``: the
    ``outcome`` (supported, unsupported, unknown, abstained, failed), every attempt, what it cost. Evidence is the
    source nodes that tools return; of other tools, their text. None is what a model wrote: a response without
    sources, the reason of a handoff, what a tool says back of its arguments, what the tools named in
    ``no_evidence`` say, what a search for a rejected draft's own words brought.

    An object by ``output_cls`` is judged field by field (``"structured"`` in the verdict), what a tool with
    ``return_direct`` brought by its sources; both are sent whatever the verdict.

    With ``early_stopping_method="generate"`` the answer that LlamaIndex has the model write at the limit of
    iterations is checked and told too, but sent whatever the verdict; inside an `AgentWorkflow` it is not
    seen here.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    augmenter: Augmenter = Field(default_factory=Augmenter, exclude=True)

    no_evidence: frozenset[str] = frozenset()
    """Names of tools whose words are no evidence: a notebook, a planner, a tool that asks a model."""

    @model_validator(mode="before")
    @classmethod
    def _loop(cls, values: dict[str, Any]) -> dict[str, Any]:
        said = {k: values[k] for k in ("augmenter", "judge", "budget", "limits", "unsupported") if k in values}
        return {**{k: v for k, v in values.items() if k not in said}, "augmenter": loop_of(**said)}

    async def take_step(
        self,
        ctx: AgentContext,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        if (
            await ctx.store.get("num_iterations", default=0) == 0
        ):  # a run that was broken off may have left its own
            await self._forget(ctx)
            await ctx.store.set(STORE_KEY, None)
        before = await ctx.store.get(self.scratchpad_key, default=[])
        before = list(before)

        async def step(*said: ChatMessage) -> _Step:
            """One call of the model, behind the scratchpad as it was and ``said``; the scratchpad stays so."""
            held = _Held(ctx)
            await ctx.store.set(self.scratchpad_key, [*before, *said])
            try:
                return _Step(await take_step(held, llm_input, tools, memory), held, said)
            finally:
                await ctx.store.set(self.scratchpad_key, list(before))

        take_step = super().take_step
        first = await step()
        sent = first
        if not first.output.tool_calls:
            sent = await self._checked(ctx, llm_input, first, step)
        # A model that looks again goes on reading what was wrong, until the answer is there (`finalize`).
        told = sent.said if sent.output.tool_calls else ()
        await ctx.store.set(self.scratchpad_key, [*before, *told, sent.output.response])
        places = [*(await ctx.store.get(_REJECTED, default=[])), *range(len(before), len(before) + len(told))]
        await ctx.store.set(_REJECTED, places)
        sent.held.release()
        return sent.output

    async def _checked(
        self,
        ctx: AgentContext,
        llm_input: Sequence[ChatMessage],
        first: _Step,
        again: Callable[..., Awaitable[_Step]],
    ) -> _Step:
        """The step to send: the best draft, or one that calls tools after all."""
        calls = await ctx.store.get("current_tool_calls", default=[])
        records = await ctx.store.get(_RECORDS, default=[])
        question = (await ctx.store.get("user_msg_str", default="")) or NO_QUESTION
        found = since_rejected(
            question, found_of(calls, self.no_evidence), records, await ctx.store.get(_SEEN, default=0)
        )
        drafts = AgentDrafts(first, again, found)
        loop = copy.copy(self.augmenter)
        loop.limits = replace(loop.limits, attempts=max(1, loop.limits.attempts - len(records)))
        answer = await loop.aanswer(question, _before(llm_input), drafter=drafts)
        note = answer_record(answer)
        if drafts.wants_tools is not None:
            rejected = [a for a in note["attempts"] if a["outcome"] == "fail" and not a["repaired"]]
            await ctx.store.set(_RECORDS, [*records, *rejected])
            await ctx.store.set(_SEEN, len(calls))
            return drafts.wants_tools
        best = answer.best
        sent = first if best is None or best.origin is None else best.origin
        await self._tell(ctx, {**note, "attempts": [*records, *note["attempts"]]})
        return sent if best is None else sent.saying(answer.text)

    async def finalize(self, ctx: Context, output: AgentOutput, memory: BaseMemory) -> AgentOutput:
        """Without the rejected drafts and the feedback on them. What a tool with ``return_direct`` brought is
        judged by its own sources, and told; it is sent as it is."""
        calls = await ctx.store.get("current_tool_calls", default=[])
        direct = next((c for c in calls if c.return_direct and not c.tool_output.is_error), None)
        if direct is not None and direct.tool_name != HANDOFF:
            drafted = Drafted(direct.tool_output.content or "", found=found_of([direct], self.no_evidence))
            await self._tell(ctx, await self._judged(ctx, drafted))
        await self._forget(ctx)
        return await super().finalize(ctx, output, memory)

    @step
    async def parse_agent_output(self, ctx: Context, ev: AgentOutput) -> StopEvent | AgentInput | ToolCall | None:
        """LlamaIndex's own; an object by ``output_cls`` or ``structured_output_fn`` is judged field by field."""
        calls = list(await ctx.store.get("current_tool_calls", default=[]))
        stop: StopEvent | AgentInput | ToolCall | None = await super().parse_agent_output(ctx, ev)
        fields = getattr(getattr(stop, "result", None), "structured_response", None)
        if fields:
            drafted = Drafted("", found=found_of(calls, self.no_evidence), fields=fields)
            judged = await self._judged(ctx, drafted)
            note = {**(await ctx.store.get(STORE_KEY, default=None) or judged), "structured": judged}
            if judged["outcome"] != "supported":
                note["outcome"] = judged["outcome"]
            await self._tell(ctx, note)
        return stop

    async def _generate_early_stopping_response(self, ctx: Context, max_iterations: int) -> StopEvent:
        """Check what LlamaIndex sends at the limit of iterations, in the place of whatever was told before."""
        found = found_of(await ctx.store.get("current_tool_calls", default=[]), self.no_evidence)
        stop = await super()._generate_early_stopping_response(ctx, max_iterations)
        drafted = Drafted(stop.result.response.content or "", found=found)
        await self._tell(ctx, await self._judged(ctx, drafted))
        await self._forget(ctx)
        return stop

    async def _judged(self, ctx: AgentContext | Context, drafted: Drafted) -> dict[str, Any]:
        """The record of what is sent whatever its verdict."""
        question = (await ctx.store.get("user_msg_str", default="")) or NO_QUESTION
        loop = copy.copy(self.augmenter)
        loop.limits = replace(loop.limits, repair=False, unsupported="send")
        said = Written()
        said.drafted = replace(drafted, calls=0)
        return answer_record(await loop.aanswer(question, drafter=said))

    async def _forget(self, ctx: AgentContext | Context) -> None:
        """Take rejected drafts and the feedback on them out of the scratchpad, and their records away."""
        rejected = set(await ctx.store.get(_REJECTED, default=[]))
        scratchpad = await ctx.store.get(self.scratchpad_key, default=[])
        await ctx.store.set(self.scratchpad_key, [m for i, m in enumerate(scratchpad) if i not in rejected])
        await ctx.store.set(_REJECTED, [])
        await ctx.store.set(_RECORDS, [])
        await ctx.store.set(_SEEN, 0)

    async def _tell(self, ctx: AgentContext | Context, note: dict[str, Any]) -> None:
        """The verdict on what is sent, with every attempt of the turn, also those before a further tool call."""
        await ctx.store.set(STORE_KEY, note)
        ctx.write_event_to_stream(VerificationEvent(record=note))


class AgentDrafts:
    """One final answer's way: the first draft is there, others are asked of the model; a core `Drafter`."""

    repeatable = True  # a model call alone: the tools are not asked again

    def __init__(self, first: _Step, again: Callable[..., Awaitable[_Step]], found: tuple[Found, ...]) -> None:
        self.first = first
        self.again = again
        self.found = found
        self.wants_tools: _Step | None = None

    def draft(self, request: DraftRequest) -> Drafted:
        raise NotImplementedError("a LlamaIndex agent is asynchronous")

    async def adraft(self, request: DraftRequest) -> Drafted:
        if request.attempt == 0:
            return self._drafted(self.first)
        said: list[ChatMessage] = []
        if request.rejected:
            told = f"{REVISE}\n{envelope(request.feedback, 'feedback')}"
            said = [
                ChatMessage(role="assistant", content=request.rejected),
                ChatMessage(role="user", content=told),
            ]
        return self._drafted(await self.again(*said))

    def _drafted(self, step: _Step) -> Drafted:
        output = step.output
        text, usage = (
            output.response.content or "",
            usage_of(ChatResponse(message=output.response, raw=output.raw)),
        )
        if output.tool_calls:
            self.wants_tools = step
            return Drafted(text, usage, judge=False, origin=step)
        return Drafted(text, usage, found=self.found, origin=step)


@dataclass(frozen=True, slots=True)
class _Step:
    """What the model said, what of it waits to be streamed, and what it was told before: a rejected draft and what
    is wrong with it."""

    output: AgentOutput
    held: _Held
    said: tuple[ChatMessage, ...] = ()

    def saying(self, text: str) -> _Step:
        """With another text, where the loop cut it or abstained."""
        if text == (self.output.response.content or "").strip():
            return self
        said = ChatMessage(role="assistant", content=text)
        return _Step(self.output.model_copy(update={"response": said}), self.held.saying(text), self.said)


def _before(llm_input: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """What was said before the last message of the user."""
    last = max((i for i, m in enumerate(llm_input) if m.role.value == "user"), default=0)
    return tuple(m for m in messages_of(llm_input[:last]) if m.role != "system")


class _Held:
    """An agent's context that keeps its token stream back until `release`."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._waiting: list[AgentStream] = []

    @property
    def store(self) -> Any:
        return self._ctx.store

    @property
    def is_running(self) -> bool:
        return self._ctx.is_running

    def write_event_to_stream(self, event: Any) -> None:
        if isinstance(event, AgentStream):
            self._waiting.append(event)
        else:
            self._ctx.write_event_to_stream(event)

    def release(self) -> None:
        for event in self._waiting:
            self._ctx.write_event_to_stream(event)

    def saying(self, text: str) -> _Held:
        """One that streams ``text`` in the place of what waits here, if anything does."""
        other = _Held(self._ctx)
        if self._waiting:
            other._waiting = [self._waiting[-1].model_copy(update={"delta": text, "response": text})]
        return other


def found_of(calls: Sequence[ToolCallResult], without: Collection[str] = ()) -> tuple[Found, ...]:
    """What each tool call found and the words it was asked with: the source nodes of a response or retrieval, else
    the tool's text. Errors found nothing; neither did what a model wrote: the reason of a handoff, a response
    without sources, an agent's or a model's reply. Nor counts a tool named in ``without``."""
    return tuple(Found(() if c.tool_name in without else _passages(c), query_of(c.tool_kwargs)) for c in calls)


_MODELS = (AgentOutput, ChatMessage, ChatResponse, CompletionResponse)


def _passages(call: ToolCallResult) -> tuple[Passage, ...]:
    output = call.tool_output
    raw = output.raw_output
    if output.is_error or call.tool_name == HANDOFF or isinstance(raw, _MODELS):
        return ()
    found = getattr(raw, "source_nodes", raw)
    if isinstance(found, list) and found and all(isinstance(n, NodeWithScore) for n in found):
        brought = nodes_behind(found, ())
        unique = {(n.node.node_id, n.node.hash): n for n in brought if says_something(n.node)}
        return to_passages(unique.values(), captions=True)
    if found is not raw:
        return ()
    read = read_result(output.content or "", name=call.tool_id or call.tool_name)
    return tuple(replace(p, provenance="tool") for p in read.passages)


def query_of(arguments: Mapping[str, Any]) -> str:
    """What a tool was asked with, as one text."""
    values = [v for v in arguments.values() if v is not None]
    return " ".join(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, default=str) for v in values)


def since_rejected(
    question: str, found: tuple[Found, ...], rejected: Sequence[Mapping[str, Any]], seen: int
) -> tuple[Found, ...]:
    """``found`` without what a search for the words of an earlier rejected draft alone brought; the first ``seen``
    searches were made before there was any."""
    old, new = found[:seen], found[seen:]
    if not rejected:
        return found
    read = tuple(p for f in old for p in f.passages)
    attempts = tuple(Attempt(r["text"], Verdict("fail", 0.0), evidence=read) for r in rejected)
    counts, _ = evidence_of(Drafted("", found=new), WorkingMemory(question, attempts=attempts))
    return (*old, Found(counts))
