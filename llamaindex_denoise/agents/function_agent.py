"""Agents whose answers are checked: a tool that says how far to trust it, an agent that checks before it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_index.core.agent.workflow import AgentOutput, AgentStream, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import AsyncBaseTool, QueryEngineTool, ToolOutput
from llama_index.core.workflow import Context, Event, StopEvent

from denoise_core import LLM, Budget, Passage, arun
from denoise_core.augmenter import Attempt, Feedback, Groundedness, Reason, TemplateFeedback, Utility, Verdict
from denoise_core.augmenter.memory import WorkingMemory, best_attempt
from denoise_core.augmenter.prompts import REVISE
from denoise_core.augmenter.traces.record import attempt_record
from denoise_core.errors import is_mistake, said
from denoise_core.running.effects import Flow
from denoise_core.running.heard import fell_back
from denoise_core.text.delimit import envelope
from llamaindex_denoise.nodes.convert import says_something, to_passages

if TYPE_CHECKING:  # not there before 0.14, and needed by type checkers alone
    from llama_index.core.agent.workflow.agent_context import AgentContext

STORE_KEY = "denoise"
_REJECTED = "denoise_rejected"  # places in the scratchpad
_RECORDS = "denoise_rejected_records"  # what those drafts were


class VerifiedQueryTool(QueryEngineTool):
    """A query engine of ours as a tool that tells the agent the verdict, which ``str(response)`` leaves out.

    A supported answer is given as it is; any other begins with a line that says what it is. Build it with
    ``VerifiedQueryTool.from_defaults(AugmentedQueryEngine(...), name=..., description=...)``.
    """

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return _labelled(super().call(*args, **kwargs))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
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

    An answer that fails is given back to the model with the reasons, at most ``attempts`` drafts in all; the
    best of those since the last tool call is sent. Rejected drafts appear neither in the user's stream nor in
    the memory. An answer given without any tool result cannot be checked and is sent as it is, with the outcome
    "unknown".

    The verdict stands in the stream as a `VerificationEvent` and in ``ctx.store`` under ``"denoise"``:
    ``outcome`` (supported, unsupported, unknown) and every attempt. Evidence is the source nodes that tools
    return; of other tools, their text. ``judge`` serves a utility that asks a model and names none.

    With ``early_stopping_method="generate"`` the answer that LlamaIndex has the model write at the limit of
    iterations is checked and told too, but sent whatever the verdict; inside an `AgentWorkflow` it is not
    seen here.
    """

    utility: Utility = Field(default_factory=Groundedness, exclude=True)
    feedback: Feedback = Field(default_factory=TemplateFeedback, exclude=True)
    judge: LLM | None = Field(default=None, exclude=True)
    budget: Budget | None = Field(default=None, exclude=True)
    attempts: int = Field(default=3, ge=1)

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
        question = await ctx.store.get("user_msg_str", default="")
        evidence = evidence_of(await ctx.store.get("current_tool_calls", default=[]))
        before = len(await ctx.store.get(_REJECTED, default=[])) // 2  # drafts rejected before the last tool call
        tried: list[_Try] = []
        while True:
            held = _Held(ctx)
            output = await super().take_step(held, llm_input, tools, memory)
            if output.tool_calls:  # not an answer yet
                held.release()
                return output
            text = output.response.content or ""
            attempt = await self._judge(question or "", text, evidence)
            tried.append(_Try(output, attempt, held))
            if attempt.verdict.outcome != "fail" or before + len(tried) >= self.attempts:
                break
            await self._reject(ctx, attempt)
        return await self._send(ctx, tried)

    async def finalize(self, ctx: Context, output: AgentOutput, memory: BaseMemory) -> AgentOutput:
        """Without the rejected drafts and the feedback on them."""
        await self._forget(ctx)
        return await super().finalize(ctx, output, memory)

    async def _generate_early_stopping_response(self, ctx: Context, max_iterations: int) -> StopEvent:
        """Check what LlamaIndex sends at the limit of iterations, in the place of whatever was told before."""
        question = await ctx.store.get("user_msg_str", default="")
        evidence = evidence_of(await ctx.store.get("current_tool_calls", default=[]))
        stop = await super()._generate_early_stopping_response(ctx, max_iterations)
        attempt = await self._judge(question or "", stop.result.response.content or "", evidence)
        await self._tell(ctx, attempt.verdict, attempt)
        await self._forget(ctx)
        return stop

    async def _forget(self, ctx: AgentContext | Context) -> None:
        """Take the rejected drafts and the feedback on them out of the scratchpad, and their records away."""
        rejected = set(await ctx.store.get(_REJECTED, default=[]))
        scratchpad = await ctx.store.get(self.scratchpad_key, default=[])
        await ctx.store.set(self.scratchpad_key, [m for i, m in enumerate(scratchpad) if i not in rejected])
        await ctx.store.set(_REJECTED, [])
        await ctx.store.set(_RECORDS, [])

    async def _judge(self, question: str, text: str, evidence: tuple[Passage, ...]) -> Attempt:
        memory = WorkingMemory(question, evidence=evidence)
        try:
            attempt, _ = await arun(self._flow(memory, text), llm=self.judge, budget=self.budget)
        except Exception as error:
            if is_mistake(error):
                raise
            fell_back("the agent's judge", error, "nothing is known of the draft")
            reason = Reason(f"the judge failed: {said(error)}", "judge_error")
            attempt = Attempt(text, Verdict("unknown", 0.0, (reason,)), "", evidence)
        return attempt

    def _flow(self, memory: WorkingMemory, text: str) -> Flow[Attempt]:
        if not memory.evidence:
            reason = Reason("no tool found anything to check the answer against", "empty_evidence")
            return Attempt(text, Verdict("unknown", 0.0, (reason,)))
        verdict = yield from self.utility.assess(memory, text)
        words = "" if verdict.passed else (yield from self.feedback.write(memory, text, verdict))
        return Attempt(text, verdict, words, memory.evidence)

    async def _reject(self, ctx: AgentContext, attempt: Attempt) -> None:
        """Put the feedback after the draft in the scratchpad, and remember both as not to be kept."""
        scratchpad = await ctx.store.get(self.scratchpad_key, default=[])
        rejected = await ctx.store.get(_REJECTED, default=[])
        words = f"{REVISE}\n{envelope(attempt.feedback, 'feedback')}"
        scratchpad = [*scratchpad, ChatMessage(role="user", content=words)]
        await ctx.store.set(self.scratchpad_key, scratchpad)
        await ctx.store.set(_REJECTED, [*rejected, len(scratchpad) - 2, len(scratchpad) - 1])
        records = await ctx.store.get(_RECORDS, default=[])
        await ctx.store.set(_RECORDS, [*records, attempt_record(attempt)])

    async def _send(self, ctx: AgentContext, tried: list[_Try]) -> AgentOutput:
        best = best_attempt([t.attempt for t in tried])
        chosen = next(t for t in tried if t.attempt is best)
        if chosen is not tried[-1]:
            scratchpad = await ctx.store.get(self.scratchpad_key, default=[])
            await ctx.store.set(self.scratchpad_key, [*scratchpad[:-1], chosen.output.response])
        chosen.held.release()
        await self._tell(ctx, chosen.attempt.verdict, tried[-1].attempt)
        return chosen.output

    async def _tell(self, ctx: AgentContext | Context, verdict: Verdict, last: Attempt) -> None:
        """The verdict on what is sent, with every rejected attempt and the last one."""
        outcome = {"pass": "supported", "fail": "unsupported", "unknown": "unknown"}[verdict.outcome]
        rejected = await ctx.store.get(_RECORDS, default=[])  # also those before a further tool call
        note = {"outcome": outcome, "score": verdict.score, "attempts": [*rejected, attempt_record(last)]}
        await ctx.store.set(STORE_KEY, note)
        ctx.write_event_to_stream(VerificationEvent(record=note))


@dataclass(frozen=True, slots=True)
class _Try:
    """A draft, its verdict, and what of it waits to be streamed."""

    output: AgentOutput
    attempt: Attempt
    held: _Held


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


def evidence_of(calls: Sequence[ToolCallResult]) -> tuple[Passage, ...]:
    """What tools found: the source nodes of a response or retrieval, else the tool's text. Errors are none."""
    nodes: list[NodeWithScore] = []
    for call in calls:
        output = call.tool_output
        if output.is_error:
            continue
        raw = output.raw_output
        found = getattr(raw, "source_nodes", raw)
        if isinstance(found, list) and found and all(isinstance(n, NodeWithScore) for n in found):
            nodes += [n for n in found if says_something(n.node)]
        elif (output.content or "").strip():
            nodes.append(_text_node(call.tool_id, call.tool_name, output.content))
    unique = {(n.node.node_id, n.node.hash): n for n in nodes}
    return to_passages(unique.values(), captions=True)


def _text_node(tool_id: str, tool_name: str, text: str) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text, id_=tool_id or tool_name))
