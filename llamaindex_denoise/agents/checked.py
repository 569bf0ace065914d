"""`Checked` of agents and workflows: answers are checked before they are sent."""

from __future__ import annotations

import copy
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
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
    CodeActAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context, StopEvent, Workflow, step

from denoise_core import InputError, Message, Passage
from denoise_core._frameworks import check_names, read_names
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.drafting.contamination import drop_contaminated_searches
from denoise_core.augmenter.drafting.conversation import (
    cited_state,
    conversation_evidence,
    merge_cited,
)
from denoise_core.augmenter.drafting.drafter import (
    DraftReply,
    DraftRequest,
    FixedText,
    RetrievedEvidence,
)
from denoise_core.augmenter.prompts import REVISE
from denoise_core.text.delimit import wrap_in_envelope
from denoise_core.tool_results import arguments_text, read_result
from denoise_core.types import Role
from llamaindex_denoise.engines.drafter import retrieved_sources
from llamaindex_denoise.events import VerificationEvent
from llamaindex_denoise.models.llm import reported_usage
from llamaindex_denoise.nodes.convert import are_scored_nodes, to_passages
from llamaindex_denoise.verify import run_record

if TYPE_CHECKING:  # missing before LlamaIndex 0.14; only type checkers need it
    from llama_index.core.agent.workflow.agent_context import AgentContext

STORE_KEY = "denoise"
NO_QUESTION = "(no question)"
HANDOFF_TOOL = "handoff"  # LlamaIndex's workflows pass a conversation on with it
EXECUTE_TOOL = "execute"  # a CodeActAgent runs its programs with it

# In the store: the last rejected draft with its feedback as notes, and the records of
# this run's rejected drafts; and what the conversation's answers rested on.
_REJECTED_KEY = "denoise_rejected"
_CITED_KEY = "denoise_cited"
_NO_REJECTED: Mapping[str, Any] = {"notes": [], "records": []}
_HISTORY_ROLES: Mapping[MessageRole, Role] = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
}
_FINAL_THOUGHT = "I can answer without using any more tools."

WorkflowT = TypeVar("WorkflowT", bound=Workflow)


def checked_workflow(
    workflow: WorkflowT, augmenter: Augmenter, no_evidence: Collection[str] = ()
) -> WorkflowT:
    """Return a copy of an agent or `AgentWorkflow` that checks its answers.

    Args:
        workflow: The agent or workflow.
        augmenter: The loop.
        no_evidence: Names of tools whose output is no evidence.

    Raises:
        InputError: No tool has a name in ``no_evidence``; or the agent does not keep its
            notes where LlamaIndex's own agents do, so its drafts could not be taken back.
    """
    excluded_tools = read_names("no_evidence", no_evidence)
    agents = getattr(workflow, "agents", None)
    if agents is None and _notes_key(workflow) is None:
        raise InputError(
            f"{type(workflow).__name__}: expected a FunctionAgent, ReActAgent, "
            "CodeActAgent or AgentWorkflow, whose drafts can be taken back; in your own "
            "workflow check what a step returns with Checked(engine)"
        )
    _check_tool_names(excluded_tools, [workflow] if agents is None else agents.values())
    return _with_checks(workflow, augmenter, excluded_tools)


def _with_checks(
    workflow: WorkflowT, augmenter: Augmenter, no_evidence: frozenset[str]
) -> WorkflowT:
    """A checked copy of a workflow and of its agents, of which one may lack a tool."""
    agents = getattr(workflow, "agents", None)
    checks = AgentAnswerChecks if agents is None else FinalOutputChecks
    checked_copy = copy.copy(workflow)
    checked_copy.__class__ = _checked_class(checks, type(workflow))
    names = ("timeout", "verbose", "num_concurrent_runs", "resource_manager")
    Workflow.__init__(checked_copy, **{n: getattr(workflow, f"_{n}") for n in names})
    # Agents are pydantic models, which refuse attributes that are no fields.
    object.__setattr__(checked_copy, "augmenter", augmenter)
    object.__setattr__(checked_copy, "no_evidence", no_evidence)
    if agents is not None:
        checked_agents = {}
        for name, agent in agents.items():
            if not isinstance(agent, FinalOutputChecks):
                agent = _with_checks(agent, augmenter, no_evidence)
            checked_agents[name] = agent
        object.__setattr__(checked_copy, "agents", checked_agents)
    return checked_copy


def _check_tool_names(names: Collection[str], agents: Iterable[Any]) -> None:
    """Raise for a name that no tool has; a retriever of tools may know any name."""
    tool_names = set()
    for agent in agents:
        if agent.tool_retriever is not None:
            return
        if isinstance(agent, CodeActAgent):
            tool_names.add(EXECUTE_TOOL)
        for tool in agent.tools or ():
            tool_names.add(tool.metadata.get_name())
    check_names("no_evidence", names, tool_names)


@lru_cache(maxsize=64)
def _checked_class(checks: type, agent_class: type) -> Any:
    namespace = {"__module__": __name__, "__doc__": checks.__doc__}
    class_name = f"Checked{agent_class.__name__}"
    return type(agent_class)(class_name, (checks, agent_class), namespace)


def _notes_key(agent: Any) -> str | None:
    """Where an agent stores a run's notes: messages, or a ReActAgent's reasoning."""
    messages_key = getattr(agent, "scratchpad_key", None)
    return getattr(agent, "reasoning_key", messages_key)


async def _stored(ctx: AgentContext | Context, key: str, default: Any) -> Any:
    return await ctx.store.get(key, default=default)


class FinalOutputChecks:
    """Checks of final output that no other check has seen.

    They are for objects by ``output_cls`` or ``structured_output_fn``, field by field,
    and for what LlamaIndex lets the model write at the limit of iterations. Both are
    sent whatever the verdict.
    """

    augmenter: Augmenter
    no_evidence: frozenset[str]

    @step
    async def parse_agent_output(
        self, ctx: Context, ev: AgentOutput
    ) -> StopEvent | AgentInput | ToolCall | None:
        """Run LlamaIndex's step and check the object that it returns."""
        # Copied before LlamaIndex's step, which clears the stored list.
        tool_calls = list(await _stored(ctx, "current_tool_calls", []))
        event: StopEvent | AgentInput | ToolCall | None
        event = await super().parse_agent_output(ctx, ev)  # type: ignore[misc]
        final_result: Any = getattr(event, "result", None)
        fields = getattr(final_result, "structured_response", None)
        if not fields:
            return event
        evidence = evidence_from_calls(tool_calls, self.no_evidence)
        draft = DraftReply(
            "", retrieved=evidence, fields=fields, evidence_is_numbered=False
        )
        answer = await self._judge_draft(ctx, draft)
        object_record = run_record(answer)
        answer_record = await _stored(ctx, STORE_KEY, None) or object_record
        verdict = {**answer_record, "structured": object_record}
        if object_record["outcome"] != "supported":
            verdict["outcome"] = object_record["outcome"]
        final_result.metadata = await self._publish(ctx, answer, verdict)
        return event

    async def _generate_early_stopping_response(
        self, ctx: Context, *args: Any
    ) -> StopEvent:
        """Check what LlamaIndex sends at the limit; replaces an earlier verdict."""
        evidence = await self._evidence(ctx)
        event: StopEvent = await super()._generate_early_stopping_response(ctx, *args)  # type: ignore[misc]
        text = event.result.response.content or ""
        draft = DraftReply(text, retrieved=evidence, evidence_is_numbered=False)
        answer = await self._judge_draft(ctx, draft)
        event.result.metadata = await self._publish(ctx, answer)
        return event

    async def _evidence(
        self, ctx: AgentContext | Context
    ) -> tuple[RetrievedEvidence, ...]:
        tool_calls = await _stored(ctx, "current_tool_calls", [])
        earlier = conversation_evidence([await _stored(ctx, _CITED_KEY, [])])
        return (*evidence_from_calls(tool_calls, self.no_evidence), *earlier)

    async def _judge_draft(
        self, ctx: AgentContext | Context, draft: DraftReply
    ) -> Answer:
        """Judge what is sent whatever the verdict."""
        augmenter = self.augmenter.with_limits(unsupported="send")
        drafter = FixedText()
        drafter.drafted = replace(draft, calls=0)
        return await augmenter.aanswer(await _question(ctx), drafter=drafter)

    async def _publish(
        self, ctx: AgentContext | Context, answer: Answer, verdict: Any = None
    ) -> dict[str, Any]:
        """Store and stream the verdict, and what later turns may rest on.

        Args:
            ctx: The agent's context.
            answer: The answer.
            verdict: Replaces its record.

        Returns:
            The output's metadata.
        """
        earlier = await _stored(ctx, _CITED_KEY, [])
        await ctx.store.set(_CITED_KEY, merge_cited([cited_state(answer), earlier]))
        verdict = verdict or run_record(answer)
        await ctx.store.set(STORE_KEY, verdict)
        ctx.write_event_to_stream(VerificationEvent(record=verdict))
        return {"denoise": verdict}


async def _question(ctx: AgentContext | Context) -> str:
    return await _stored(ctx, "user_msg_str", "") or NO_QUESTION


class AgentAnswerChecks(FinalOutputChecks):
    """Checks of an agent's final answer against the results of its tools.

    Only the last model call is repeated, with the same tool results. A model that
    answers feedback with another tool call gets it; drafts of the whole turn count
    towards ``limits.attempts``. The best draft since the last tool call is sent;
    rejected drafts are neither streamed nor remembered. Evidence is what the tools
    returned, and what the conversation's earlier answers rested on. The verdict is in the stream
    as a `VerificationEvent`, in ``ctx.store`` under ``"denoise"`` and in the output's
    ``metadata``.
    """

    async def take_step(
        self,
        ctx: AgentContext,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Run LlamaIndex's step; one without tool calls is an answer to check."""
        if await _stored(ctx, "num_iterations", 0) == 0:
            # A run that was cancelled may have left its drafts and verdict.
            await ctx.store.set(_REJECTED_KEY, dict(_NO_REJECTED))
            await ctx.store.set(STORE_KEY, None)
        notes_key = _notes_key(self) or ""
        earlier_notes = list(await _stored(ctx, notes_key, []))
        rejected_state = await _stored(ctx, _REJECTED_KEY, _NO_REJECTED)
        take_step = super().take_step  # type: ignore[misc]

        async def call_model(*feedback_notes: Any) -> _ModelStep:
            """Call the model with extra notes; the stored notes are restored."""
            held_context = _HeldStream(ctx)
            await ctx.store.set(notes_key, [*earlier_notes, *feedback_notes])
            try:
                output = await take_step(held_context, llm_input, tools, memory)
                all_notes = list(await _stored(ctx, notes_key, []))
            finally:
                await ctx.store.set(notes_key, list(earlier_notes))
            new_notes = all_notes[len(earlier_notes) + len(feedback_notes) :]
            return _ModelStep(output, held_context, feedback_notes, new_notes)

        # A model that searches again after a rejection reads the feedback until it answers.
        model_step = await call_model(*rejected_state["notes"])
        if not model_step.output.tool_calls and not model_step.output.retry_messages:
            history = _history_before_question(llm_input)
            model_step = await self._check_step(
                ctx, history, rejected_state["records"], model_step, call_model
            )
        await ctx.store.set(notes_key, [*earlier_notes, *model_step.new_notes])
        model_step.held_context.release()
        return model_step.output

    async def _check_step(
        self,
        ctx: AgentContext,
        history: tuple[Message, ...],
        rejected_records: list[Any],
        first_step: _ModelStep,
        call_model: Callable[..., Awaitable[_ModelStep]],
    ) -> _ModelStep:
        """The step to send: the best draft, or one that calls tools after all."""
        question = await _question(ctx)
        # A search for a rejected draft's own words must not confirm that draft.
        evidence = drop_contaminated_searches(
            question,
            await self._evidence(ctx),
            [attempt["text"] for attempt in rejected_records],
        )
        drafter = AgentDrafter(first_step, call_model, evidence)
        attempts = max(1, self.augmenter.limits.attempts - len(rejected_records))
        augmenter = self.augmenter.with_limits(attempts=attempts)
        answer = await augmenter.aanswer(question, history, drafter=drafter)
        verdict = run_record(answer)
        new_records = verdict["attempts"]
        if drafter.tool_step is not None:
            failed = [a for a in new_records if a["outcome"] == "fail"]
            notes = list(drafter.tool_step.feedback_notes)
            rejected_state = {"notes": notes, "records": [*rejected_records, *failed]}
            await ctx.store.set(_REJECTED_KEY, rejected_state)
            return drafter.tool_step
        verdict["attempts"] = [*rejected_records, *new_records]
        await self._publish(ctx, answer, verdict)
        if answer.best is None:
            return first_step
        model_step: _ModelStep = answer.best.origin
        return model_step.with_text(answer.text)

    async def finalize(
        self, ctx: Context, output: AgentOutput, memory: BaseMemory
    ) -> AgentOutput:
        """Forget rejected drafts, and judge what a tool returns directly.

        The result of a tool with ``return_direct`` is judged by its own sources and
        sent whatever the verdict. A handoff ends here too: the next agent keeps other
        notes, and has not written those drafts.
        """
        for tool_call in await _stored(ctx, "current_tool_calls", []):
            if not tool_call.return_direct or tool_call.tool_output.is_error:
                continue
            if tool_call.tool_name != HANDOFF_TOOL:
                evidence = evidence_from_calls([tool_call], self.no_evidence)
                text = tool_call.tool_output.content or ""
                draft = DraftReply(text, retrieved=evidence)
                await self._publish(ctx, await self._judge_draft(ctx, draft))
            break
        await ctx.store.set(_REJECTED_KEY, dict(_NO_REJECTED))
        final_output: AgentOutput = await super().finalize(ctx, output, memory)  # type: ignore[misc]
        final_output.metadata = {"denoise": await _stored(ctx, STORE_KEY, None)}
        return final_output


@dataclass
class AgentDrafter:
    """A core `Drafter` for one final answer of an agent.

    The first draft is there already; others are new calls of the model.

    Attributes:
        tool_step: The step in which the model called tools instead of answering.
    """

    first_step: _ModelStep
    repeat_step: Callable[..., Awaitable[_ModelStep]]
    evidence: tuple[RetrievedEvidence, ...]
    tool_step: _ModelStep | None = None
    repeatable: bool = True  # a model call alone: tools are not called again

    def draft(self, request: DraftRequest) -> DraftReply:
        """Not supported: LlamaIndex's agents are asynchronous."""
        raise NotImplementedError("a LlamaIndex agent is asynchronous; use adraft")

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """Return the first draft, or a new one after feedback."""
        model_step = self.first_step
        if request.rejected_draft:
            feedback = f"{REVISE}\n{wrap_in_envelope(request.feedback, 'feedback')}"
            notes = model_step.feedback_as_notes(request.rejected_draft, feedback)
            model_step = await self.repeat_step(*notes)
        elif request.attempt > 0:
            model_step = await self.repeat_step()
        return self._to_draft(model_step)

    def _to_draft(self, model_step: _ModelStep) -> DraftReply:
        output = model_step.output
        token_usage = reported_usage(
            ChatResponse(message=output.response, raw=output.raw)
        )
        is_answer = not output.tool_calls
        if not is_answer:
            self.tool_step = model_step
        return DraftReply(
            model_step.text,
            token_usage,
            retrieved=self.evidence,
            judge=is_answer,
            origin=model_step,
            evidence_is_numbered=_are_numbered(self.evidence),
        )


@dataclass(frozen=True, slots=True)
class _ModelStep:
    """One model call of an agent.

    Attributes:
        output: What the model returned.
        held_context: The context that holds its stream back.
        feedback_notes: The rejected draft and the feedback on it that the model read.
        new_notes: What the agent noted of the call: messages, or reasoning steps of a
            ReActAgent.
    """

    output: AgentOutput
    held_context: _HeldStream
    feedback_notes: tuple[Any, ...]
    new_notes: list[Any]

    @property
    def is_reasoning(self) -> bool:
        """Whether it is a ReActAgent's answer."""
        if not self.new_notes:
            return False
        return isinstance(self.new_notes[-1], ResponseReasoningStep)

    @property
    def text(self) -> str:
        """The answer."""
        if self.is_reasoning:
            answer_step: ResponseReasoningStep = self.new_notes[-1]
            return answer_step.response
        return self.output.response.content or ""

    def feedback_as_notes(self, draft: str, feedback: str) -> tuple[Any, ...]:
        """Return a draft and the feedback on it in the form of the agent's notes."""
        if self.is_reasoning:
            observation = ObservationReasoningStep(observation=feedback)
            return _answer_reasoning(draft), observation
        return (
            ChatMessage(role="assistant", content=draft),
            ChatMessage(role="user", content=feedback),
        )

    def with_text(self, text: str) -> _ModelStep:
        """Return the step with another text, if the loop abstained."""
        if text == self.text:
            return self
        reasoning = _answer_reasoning(text) if self.is_reasoning else None
        shown_text = text if reasoning is None else reasoning.get_content()
        self.held_context.replace_text(shown_text)
        message = ChatMessage(role="assistant", content=shown_text)
        return replace(
            self,
            output=self.output.model_copy(update={"response": message}),
            new_notes=[*self.new_notes[:-1], reasoning or message],
        )


def _answer_reasoning(text: str) -> ResponseReasoningStep:
    return ResponseReasoningStep(thought=_FINAL_THOUGHT, response=text)


def _history_before_question(
    llm_input: Sequence[ChatMessage],
) -> tuple[Message, ...]:
    """What was said before the user's last message, without system and tool messages."""
    messages = list(llm_input)
    while messages and messages.pop().role is not MessageRole.USER:
        pass
    history = []
    for message in messages:
        text = message.content or ""
        if message.role in _HISTORY_ROLES and text.strip():
            history.append(Message(_HISTORY_ROLES[message.role], text))
    return tuple(history)


class _HeldStream:
    """An agent's context that holds its token stream back until `release`."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._waiting_events: list[AgentStream] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def write_event_to_stream(self, event: Any) -> None:
        if isinstance(event, AgentStream):
            self._waiting_events.append(event)
        else:
            self._ctx.write_event_to_stream(event)

    def release(self) -> None:
        """Send the waiting events."""
        for event in self._waiting_events:
            self._ctx.write_event_to_stream(event)

    def replace_text(self, text: str) -> None:
        """Let the waiting events be one with ``text``, if there are any."""
        last_events = self._waiting_events[-1:]
        update = {"delta": text, "response": text}
        self._waiting_events = [
            event.model_copy(update=update) for event in last_events
        ]


def evidence_from_calls(
    calls: Sequence[ToolCallResult], excluded_tools: Collection[str] = ()
) -> tuple[RetrievedEvidence, ...]:
    """Return the evidence of each tool call, with the arguments as its query.

    Evidence is the source nodes of a response or retrieval, else the tool's text.
    Errors are none, and neither is what a model wrote: the reason of a handoff, a
    response without sources, the reply of an agent or a model, and the output of a tool
    in ``excluded_tools``.
    """
    evidence = []
    for call in calls:
        is_excluded = call.tool_name in excluded_tools
        passages = () if is_excluded else _call_passages(call)
        evidence.append(RetrievedEvidence(passages, arguments_text(call.tool_kwargs)))
    return tuple(evidence)


def _are_numbered(evidence: Sequence[RetrievedEvidence]) -> bool:
    """Whether all passages say their numbers, as those of a CitationQueryEngine do.

    Other tools number their results in ways that are not known.
    """
    passages = [passage for search in evidence for passage in search.passages]
    for number, passage in enumerate(passages, 1):
        if not passage.text.startswith(f"Source {number}:"):
            return False
    return bool(passages)


_MODEL_OUTPUTS = (AgentOutput, ChatMessage, ChatResponse, CompletionResponse)


def _call_passages(call: ToolCallResult) -> tuple[Passage, ...]:
    output = call.tool_output
    raw_output = output.raw_output
    is_model_text = isinstance(raw_output, _MODEL_OUTPUTS)
    if output.is_error or is_model_text or call.tool_name == HANDOFF_TOOL:
        return ()
    source_nodes = getattr(raw_output, "source_nodes", raw_output)
    if are_scored_nodes(source_nodes):
        return to_passages(retrieved_sources(source_nodes))
    if source_nodes is not raw_output:  # a response without sources
        return ()
    text = output.content or ""
    if call.tool_name == EXECUTE_TOOL:
        # A line of the program itself was written by the model.
        code = str(call.tool_kwargs.get("code", ""))
        lines = [line for line in text.splitlines() if line.strip() not in code]
        text = "\n".join(lines)
    return read_result(text, name=call.tool_id or call.tool_name).passages
