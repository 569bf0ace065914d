"""What `Checked` makes of an agent, a workflow or a tool: answers are checked before they are sent."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from llama_index.core.agent.react.types import (
    ObservationReasoningStep,
    ResponseReasoningStep,
)
from llama_index.core.agent.workflow import (
    AgentInput,
    AgentOutput,
    AgentStream,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    TextBlock,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import AsyncBaseTool, QueryEngineTool, ToolOutput
from llama_index.core.workflow import Context, StopEvent, Workflow, step

from denoise_core import InputError, Message, Passage
from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    DraftRequest,
    RetrievedEvidence,
    FixedText,
)
from denoise_core.augmenter.drafting.contamination import drop_contaminated_searches
from denoise_core.augmenter.prompts import REVISE
from denoise_core.text.delimit import wrap_in_envelope
from denoise_core.tool_results import arguments_text, read_result
from llamaindex_denoise.engines.base import history_to_messages
from llamaindex_denoise.engines.drafter import retrieved_sources
from llamaindex_denoise.events import VerificationEvent
from llamaindex_denoise.models.llm import reported_usage
from llamaindex_denoise.nodes.convert import can_be_evidence, to_passages
from llamaindex_denoise.verify import EngineLoopRun

if TYPE_CHECKING:  # not there before 0.14, and needed by type checkers alone
    from llama_index.core.agent.workflow.agent_context import AgentContext

STORE_KEY = "denoise"
NO_QUESTION = "(no question)"
HANDOFF_TOOL = (
    "handoff"  # the tool with which LlamaIndex's workflows pass a conversation on
)
EXECUTE_TOOL = "execute"  # the tool with which a CodeActAgent runs what it wrote
_REJECTED = "denoise_rejected"
# Of the drafts rejected in a run: their places among its notes, and their records.
_NONE: Mapping[str, Any] = {"places": [], "records": []}
_THOUGHT = "I can answer without using any more tools."

A = TypeVar("A", bound=Workflow)


class CheckedTool(QueryEngineTool):
    """A query engine tool that tells the agent the verdict, which ``str(response)`` leaves out.

    A supported answer is given as it is; any other begins with a line that says what it is.
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
    said = (
        f"({outcome}: this answer was not confirmed by its sources)\n{output.content}"
    )
    return output.model_copy(update={"blocks": [TextBlock(text=said)]})


def checked_workflow(
    workflow: A, augmenter: Augmenter, no_evidence: Collection[str] = ()
) -> A:
    """A copy of an agent, or of an `AgentWorkflow`, that checks its answers. Raises `InputError` for an agent that
    keeps no notes of a run where LlamaIndex's own keep them."""
    if isinstance(no_evidence, str):
        raise InputError(
            f"no_evidence={no_evidence!r}: expected names of tools, such as {{'notes'}}"
        )
    agents = getattr(workflow, "agents", None)
    kind = AgentAnswerChecks if agents is None else FinalOutputChecks
    if agents is None and _place(workflow) is None:
        raise InputError(
            f"{type(workflow).__name__}: expected a FunctionAgent, ReActAgent, CodeActAgent or AgentWorkflow, "
            "whose drafts can be taken back; in a workflow of your own check what a step asks: Checked(engine)"
        )
    twin = copy.copy(workflow)
    twin.__class__ = _checked(kind, type(workflow))
    names = ("timeout", "verbose", "num_concurrent_runs", "resource_manager")
    Workflow.__init__(twin, **{n: getattr(workflow, f"_{n}") for n in names})
    object.__setattr__(twin, "augmenter", augmenter)
    object.__setattr__(twin, "no_evidence", frozenset(no_evidence))
    if agents is not None:
        checked = {n: a if isinstance(a, FinalOutputChecks) else checked_workflow(a, augmenter, no_evidence)
                   for n, a in agents.items()}  # fmt: skip
        object.__setattr__(twin, "agents", checked)
    return twin


@lru_cache(maxsize=64)
def _checked(kind: type, of: type) -> Any:
    return type(of)(
        f"Checked{of.__name__}",
        (kind, of),
        {"__module__": __name__, "__doc__": kind.__doc__},
    )


def _place(agent: Any) -> str | None:
    """Where in the store an agent keeps what was said in a run: messages, or a ReActAgent's reasoning."""
    place: str | None = getattr(agent, "reasoning_key", None) or getattr(
        agent, "scratchpad_key", None
    )
    return place


class FinalOutputChecks:
    """An agent or workflow whose last word is judged where nothing was judged before: an object by ``output_cls``
    or ``structured_output_fn``, field by field, and what LlamaIndex has the model write at the limit of
    iterations. Both are sent whatever the verdict."""

    augmenter: Augmenter
    no_evidence: frozenset[str]

    @step
    async def parse_agent_output(
        self, ctx: Context, ev: AgentOutput
    ) -> StopEvent | AgentInput | ToolCall | None:
        calls = list(await ctx.store.get("current_tool_calls", default=[]))
        stop: (
            StopEvent | AgentInput | ToolCall | None
        ) = await super().parse_agent_output(ctx, ev)  # type: ignore[misc]
        result: Any = getattr(stop, "result", None)
        fields = getattr(result, "structured_response", None)
        if fields:
            judged = await self._judged(
                ctx,
                DraftReply(
                    "",
                    retrieved=evidence_from_calls(calls, self.no_evidence),
                    fields=fields,
                ),
            )
            note = {
                **(await ctx.store.get(STORE_KEY, default=None) or judged),
                "structured": judged,
            }
            if judged["outcome"] != "supported":
                note["outcome"] = judged["outcome"]
            await self._tell(ctx, note)
            result.metadata = {"denoise": note}
        return stop

    async def _generate_early_stopping_response(
        self, ctx: Context, *args: Any
    ) -> StopEvent:
        """Check what LlamaIndex sends at the limit of iterations, in the place of whatever was told before."""
        found = evidence_from_calls(
            await ctx.store.get("current_tool_calls", default=[]), self.no_evidence
        )
        stop: StopEvent = await super()._generate_early_stopping_response(ctx, *args)  # type: ignore[misc]
        note = await self._judged(
            ctx, DraftReply(stop.result.response.content or "", retrieved=found)
        )
        await self._tell(ctx, note)
        stop.result.metadata = {"denoise": note}
        return stop

    async def _judged(
        self, ctx: AgentContext | Context, drafted: DraftReply
    ) -> dict[str, Any]:
        """The record of what is sent whatever its verdict."""
        question = (await ctx.store.get("user_msg_str", default="")) or NO_QUESTION
        loop = copy.copy(self.augmenter)
        loop.limits = replace(loop.limits, unsupported="send")
        said = FixedText()
        said.drafted = replace(drafted, calls=0)
        asked = EngineLoopRun(loop, question, said)
        return asked.emit_record(await asked.aanswer())

    async def _tell(self, ctx: AgentContext | Context, note: dict[str, Any]) -> None:
        await ctx.store.set(STORE_KEY, note)
        ctx.write_event_to_stream(VerificationEvent(record=note))


class AgentAnswerChecks(FinalOutputChecks):
    """An agent that holds its final answer against what its tools found before it sends it.

    Only the last model call is repeated, with the same tool results. A model that answers feedback with another
    tool call gets it; the drafts of the whole turn count towards ``limits.attempts``. What is sent is the best
    draft since the last tool call; rejected drafts appear neither in the user's stream nor in the memory. An
    answer without any tool result is sent as it is, with the outcome "unknown". The verdict stands in the stream
    as a `VerificationEvent`, in ``ctx.store`` under ``"denoise"`` and in the ``metadata`` of the output.
    """

    async def take_step(
        self,
        ctx: AgentContext,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """LlamaIndex's own; a step without tool calls is an answer, and checked."""
        if (
            await ctx.store.get("num_iterations", default=0) == 0
        ):  # one that was broken off may have left its own
            await self._forget(ctx)
            await ctx.store.set(STORE_KEY, None)
        place = _place(self) or ""
        before = list(await ctx.store.get(place, default=[]))

        async def step(*said: Any) -> _Step:
            """One call of the model, behind the notes as they were and ``said``; they stay so."""
            held = _Held(ctx)
            await ctx.store.set(place, [*before, *said])
            try:
                output = await take_step(held, llm_input, tools, memory)
                notes = list(await ctx.store.get(place, default=[]))[
                    len(before) + len(said) :
                ]
                return _Step(output, held, said, notes)
            finally:
                await ctx.store.set(place, list(before))

        take_step = super().take_step  # type: ignore[misc]
        first = await step()
        sent = first
        if not first.output.tool_calls and not first.output.retry_messages:
            sent = await self._checked(ctx, llm_input, first, step)
        # A model that looks again goes on reading what was wrong, until the answer is there (`finalize`).
        told = sent.said if sent.output.tool_calls else ()
        await ctx.store.set(place, [*before, *told, *sent.notes])
        rejected = await ctx.store.get(_REJECTED, default=_NONE)
        places = [*rejected["places"], *range(len(before), len(before) + len(told))]
        await ctx.store.set(_REJECTED, {**rejected, "places": places})
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
        rejected = await ctx.store.get(_REJECTED, default=_NONE)
        records = rejected["records"]
        question = (await ctx.store.get("user_msg_str", default="")) or NO_QUESTION
        found = drop_contaminated_searches(
            question,
            evidence_from_calls(calls, self.no_evidence),
            [r["text"] for r in records],
        )
        drafts = AgentDrafter(first, again, found)
        loop = copy.copy(self.augmenter)
        loop.limits = replace(
            loop.limits, attempts=max(1, loop.limits.attempts - len(records))
        )
        asked = EngineLoopRun(loop, question, drafts, _before(llm_input))
        answer = await asked.aanswer()
        note = asked.emit_record(answer)
        if drafts.tool_step is not None:
            failed = [
                a
                for a in note["attempts"]
                if a["outcome"] == "fail"
            ]
            await ctx.store.set(_REJECTED, {**rejected, "records": [*records, *failed]})
            return drafts.tool_step
        best = answer.best
        sent: _Step = first if best is None or best.origin is None else best.origin
        await self._tell(ctx, {**note, "attempts": [*records, *note["attempts"]]})
        return sent if best is None else sent.saying(answer.text)

    async def finalize(
        self, ctx: Context, output: AgentOutput, memory: BaseMemory
    ) -> AgentOutput:
        """Without the rejected drafts and the feedback on them. What a tool with ``return_direct`` brought is
        judged by its own sources, and told; it is sent as it is."""
        calls = await ctx.store.get("current_tool_calls", default=[])
        direct = next(
            (c for c in calls if c.return_direct and not c.tool_output.is_error), None
        )
        if direct is not None and direct.tool_name != HANDOFF_TOOL:
            drafted = DraftReply(
                direct.tool_output.content or "",
                retrieved=evidence_from_calls([direct], self.no_evidence),
            )
            await self._tell(ctx, await self._judged(ctx, drafted))
        await self._forget(ctx)
        said: AgentOutput = await super().finalize(ctx, output, memory)  # type: ignore[misc]
        said.metadata = {"denoise": await ctx.store.get(STORE_KEY, default=None)}
        return said

    async def _generate_early_stopping_response(
        self, ctx: Context, *args: Any
    ) -> StopEvent:
        stop = await super()._generate_early_stopping_response(ctx, *args)
        await self._forget(ctx)
        return stop

    async def _forget(self, ctx: AgentContext | Context) -> None:
        """Take rejected drafts and the feedback on them out of the notes, and their records away."""
        place, rejected = (
            _place(self) or "",
            await ctx.store.get(_REJECTED, default=_NONE),
        )
        notes = await ctx.store.get(place, default=[])
        await ctx.store.set(
            place, [m for i, m in enumerate(notes) if i not in rejected["places"]]
        )
        await ctx.store.set(_REJECTED, dict(_NONE))


class AgentDrafter:
    """One final answer's way: the first draft is there, others are asked of the model; a core `Drafter`."""

    repeatable = True  # a model call alone: the tools are not asked again

    def __init__(
        self,
        first: _Step,
        again: Callable[..., Awaitable[_Step]],
        found: tuple[RetrievedEvidence, ...],
    ) -> None:
        self.first_step = first
        self.repeat_step = again
        self.evidence = found
        self.tool_step: _Step | None = None

    def draft(self, request: DraftRequest) -> DraftReply:
        raise NotImplementedError("a LlamaIndex agent is asynchronous")

    async def adraft(self, request: DraftRequest) -> DraftReply:
        if request.attempt == 0:
            return self._drafted(self.first_step)
        wrong = f"{REVISE}\n{wrap_in_envelope(request.feedback, 'feedback')}"
        said = (
            self.first_step.told(request.rejected_draft, wrong)
            if request.rejected_draft
            else ()
        )
        return self._drafted(await self.repeat_step(*said))

    def _drafted(self, step: _Step) -> DraftReply:
        output = step.output
        usage = reported_usage(ChatResponse(message=output.response, raw=output.raw))
        if output.tool_calls:
            self.tool_step = step
            return DraftReply(step.text, usage, judge=False, origin=step)
        return DraftReply(step.text, usage, retrieved=self.evidence, origin=step)


@dataclass(frozen=True, slots=True)
class _Step:
    """What the model said, what of it waits to be streamed, what it was told before (a rejected draft and what is
    wrong with it), and what the agent noted of it: a message, or of a ReActAgent a step of reasoning."""

    output: AgentOutput
    held: _Held
    said: tuple[Any, ...]
    notes: list[Any]

    @property
    def reasons(self) -> bool:
        """Whether it is a ReActAgent's answer."""
        return bool(self.notes) and isinstance(self.notes[-1], ResponseReasoningStep)

    @property
    def text(self) -> str:
        """The answer in it."""
        return (
            self.notes[-1].response
            if self.reasons
            else self.output.response.content or ""
        )

    def told(self, draft: str, wrong: str) -> tuple[Any, ...]:
        """A draft and what is wrong with it, as the agent notes them."""
        if self.reasons:
            return _reasoned(draft), ObservationReasoningStep(observation=wrong)
        return ChatMessage(role="assistant", content=draft), ChatMessage(
            role="user", content=wrong
        )

    def saying(self, text: str) -> _Step:
        """With another text, where the loop cut it or abstained."""
        if text == self.text.strip():
            return self
        shown = _reasoned(text).get_content() if self.reasons else text
        said = ChatMessage(role="assistant", content=shown)
        output = self.output.model_copy(update={"response": said})
        noted = _reasoned(text) if self.reasons else said
        return _Step(
            output, self.held.saying(shown), self.said, [*self.notes[:-1], noted]
        )


def _reasoned(text: str) -> ResponseReasoningStep:
    return ResponseReasoningStep(thought=_THOUGHT, response=text)


def _before(llm_input: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """What was said before the last message of the user."""
    last = max(
        (i for i, m in enumerate(llm_input) if m.role.value == "user"), default=0
    )
    return tuple(m for m in history_to_messages(llm_input[:last]) if m.role != "system")


class _Held:
    """An agent's context that keeps its token stream back until `release`."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._waiting: list[AgentStream] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

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
            other._waiting = [
                self._waiting[-1].model_copy(update={"delta": text, "response": text})
            ]
        return other


def evidence_from_calls(
    calls: Sequence[ToolCallResult], excluded_tools: Collection[str] = ()
) -> tuple[RetrievedEvidence, ...]:
    """What each tool call found and the words it was asked with: the source nodes of a response or retrieval, else
    the tool's text. Errors found nothing; neither did what a model wrote: the reason of a handoff, a response
    without sources, an agent's or a model's reply. Nor counts a tool named in ``without``."""
    return tuple(
        RetrievedEvidence(
            () if c.tool_name in excluded_tools else _passages(c),
            arguments_text(c.tool_kwargs),
        )
        for c in calls
    )


_MODELS = (AgentOutput, ChatMessage, ChatResponse, CompletionResponse)


def _passages(call: ToolCallResult) -> tuple[Passage, ...]:
    output = call.tool_output
    raw = output.raw_output
    if output.is_error or call.tool_name == HANDOFF_TOOL or isinstance(raw, _MODELS):
        return ()
    found = getattr(raw, "source_nodes", raw)
    if (
        isinstance(found, list)
        and found
        and all(isinstance(n, NodeWithScore) for n in found)
    ):
        brought = retrieved_sources(found)
        unique = {
            (n.node.node_id, n.node.hash): n for n in brought if can_be_evidence(n.node)
        }
        return to_passages(unique.values(), include_captions=True)
    if found is not raw:
        return ()
    text = output.content or ""
    if (
        call.tool_name == EXECUTE_TOOL
    ):  # what a program prints as it stands in it, its author said
        code = str(call.tool_kwargs.get("code", ""))
        text = "\n".join(line for line in text.splitlines() if line.strip() not in code)
    read = read_result(text, name=call.tool_id or call.tool_name)
    return tuple(replace(p, provenance="tool") for p in read.passages)
