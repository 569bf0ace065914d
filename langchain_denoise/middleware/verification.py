"""`VerificationMiddleware`: checks an agent's final answer against its tools' results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, get_args

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitState
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    PrivateStateAttr,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import (
    ensure_config,
    merge_configs,
    set_config_context,
)
from langchain_core.runnables.utils import coro_with_context
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.types import Command
from typing_extensions import override

from denoise_core import InputError, Passage, Reply
from denoise_core._frameworks import check_choice
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, RetrievedEvidence
from denoise_core.augmenter.drafting.contamination import drop_contaminated_searches
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.augmenter.streaming import Show
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.text.words import content_words
from langchain_denoise.convert.chain_values import (
    EVIDENCE_KEYS,
    Evidence,
    as_mapping,
    attach_record,
    documents_evidence,
    documents_in_state,
    extract_messages,
    tools_evidence,
)
from langchain_denoise.convert.claims import (
    ClaimedOutput,
    extract_output_claims,
)
from langchain_denoise.convert.messages import (
    ConversationTurn,
    Messages,
    internal_config,
    last_position,
    to_core_messages,
)
from langchain_denoise.middleware.base import (
    AgentRequest,
    AgentResponse,
    AsyncHandler,
    Handler,
)
from langchain_denoise.models.chat_llm import reply_from_message
from langchain_denoise.observe import Record
from langchain_denoise.verification.redraft import feedback_messages
from langchain_denoise.verification.verifier import (
    Verifier,
    earlier_evidence,
    record_for_output,
    stored_record,
    verifier_or_default,
)

EvidenceFunction: TypeAlias = Callable[[Messages], Any]
EvidenceScope = Literal["turn", "conversation", "prompt"]
VerifiedResponse: TypeAlias = AgentResponse | ExtendedModelResponse[Any]

NO_EVIDENCE = (
    f"no evidence in tools' results, nor under {', '.join(EVIDENCE_KEYS)} of the state; "
    "evidence='prompt' reads the system prompt, a function reads anything"
)
REJECTED_COUNT_KEY = "run_rejected_draft_count"
COUNT_KEYS = (REJECTED_COUNT_KEY, "thread_model_call_count", "run_model_call_count")


class VerificationState(ModelCallLimitState[Any]):
    """The call counts that LangChain's limit reads, and the drafts rejected in a run.

    The drafts' records are in messages, which a message of the same id replaces.
    """

    run_rejected_draft_count: NotRequired[
        Annotated[int, UntrackedValue, PrivateStateAttr]
    ]


class VerificationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Judges the answer, asks the model for another draft, and returns the best.

    Only the last model call is repeated, with the same tool results: no tool runs twice. A
    reply with tool calls is not judged. A model that answers feedback with another tool
    call gets it, and is judged again afterwards; the drafts of the whole turn count
    towards ``verifier.limits.attempts``, so that the loop ends.

    Rejected drafts and feedback never become messages of the agent. The record, rejected
    drafts included, is in the answer's ``response_metadata["denoise"]``, which is never
    sent to a model, and in a span of the middleware's name.
    Further calls of the model count in ``ModelCallLimitMiddleware``, which stops what
    follows them; ``verifier.limits`` bounds the calls themselves.
    """

    state_schema = VerificationState

    def __init__(
        self,
        verifier: Verifier | None = None,
        *,
        evidence: EvidenceFunction | EvidenceScope = "turn",
        show: Show = "checked",
        answer: Callable[[Any], Any] | None = None,
    ) -> None:
        """Check and store the settings.

        Args:
            verifier: How answers are judged; None is ``Verifier()``.
            evidence: What the tools returned since the user's last message (``"turn"``) or
                in the whole ``"conversation"``, and the documents under ``context``,
                ``documents`` or ``source_documents`` of the agent's state. ``"prompt"``
                adds the system prompt as the model reads it, for an agent whose prompt
                holds the documents. Or a function from the messages to documents or
                strings.
            show: ``"checked"`` streams the answer as one message once it is judged;
                ``"draft"`` streams the first draft as the model writes it, and the final
                answer as the message after it.
            answer: A function of a structured answer that returns a dict of the fields
                to judge; None judges the answer in it, or every field.
        """
        super().__init__()
        if not callable(evidence) and evidence not in get_args(EvidenceScope):
            raise InputError(
                f"evidence={evidence!r}: expected 'turn', 'conversation', 'prompt' or a "
                "function of the messages"
            )
        check_choice("show", show, "draft", "checked")
        self.verifier = verifier_or_default(verifier)
        self.evidence: EvidenceFunction | EvidenceScope = evidence
        self.show = show
        self.answer = answer

    @override
    def wrap_model_call(
        self, request: AgentRequest, handler: Handler
    ) -> VerifiedResponse:
        prompts = PromptReader()
        with self._first_draft_context(request, prompts) as context:
            first_response: AgentResponse = context.run(handler, request)
        if not has_answer(first_response):
            return first_response
        drafter = ModelDrafter(self, request, first_response, prompts, handler)
        drafter.traced_loop().invoke(drafter.question, internal_config())
        return drafter.response()

    @override
    async def awrap_model_call(
        self, request: AgentRequest, handler: AsyncHandler
    ) -> VerifiedResponse:
        prompts = PromptReader()
        with self._first_draft_context(request, prompts) as context:
            call = coro_with_context(handler(request), context, create_task=True)
            first_response = await call
        if not has_answer(first_response):
            return first_response
        drafter = ModelDrafter(self, request, first_response, prompts, handler)
        await drafter.traced_loop().ainvoke(drafter.question, internal_config())
        return drafter.response()

    def _first_draft_context(self, request: AgentRequest, prompts: PromptReader) -> Any:
        """The context of the first draft: out of the user's stream if that is wanted.

        Raises:
            InputError: For a structured answer that another text would replace.
        """
        unsupported = self.verifier.limits.unsupported
        if request.response_format is not None and unsupported != "send":
            raise InputError(
                f"unsupported={unsupported!r} puts another text into the answer, and a "
                "structured answer has no field for it; send it, and read its outcome"
            )
        config = ensure_config() if self.show == "draft" else internal_config()
        return set_config_context(merge_configs(config, {"callbacks": [prompts]}))


class PromptReader(BaseCallbackHandler):
    """Notes the system prompt of the last model call, as other middleware made it."""

    system_text = ""

    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], **kwargs: Any
    ) -> None:
        """Note the text of the system messages."""
        texts = [str(item.text) for item in messages[0] if item.type == "system"]
        self.system_text = "\n\n".join(texts)


class ModelDrafter:
    """Drafts of one final answer, by the agent's model; a core `Drafter`.

    The first draft is the reply that the agent already has.
    """

    repeatable = True  # only the model is called again, no tool

    def __init__(
        self,
        settings: VerificationMiddleware,
        request: AgentRequest,
        first_response: AgentResponse,
        prompts: PromptReader,
        handler: Callable[[AgentRequest], Any],
    ) -> None:
        self.name = settings.name
        self.request = request
        self.answer_function = settings.answer
        self.first_response = first_response
        self.handler = handler
        self.extra_calls = 0
        self.tool_response: AgentResponse | None = None
        # The state's messages are those before other middleware changed the request, so
        # that the verdict does not depend on the order of middleware.
        messages = extract_messages(request.state) or request.messages
        turn = ConversationTurn.from_messages(messages)
        self.question = turn.question_text.strip() or "(no question)"
        self.history = to_core_messages(turn.history)
        rejected_texts, _ = earlier_rejections(messages)
        evidence = collect_evidence(messages, settings.evidence)
        if not callable(settings.evidence):
            evidence += documents_in_state(request.state)
        # Tools, and a prompt that is evidence, number what they hold themselves.
        is_whole = settings.evidence == "conversation"
        tool_messages = messages if is_whole else turn.replies
        has_tool_results = last_position(tool_messages, ToolMessage) is not None
        is_numbered = bool(evidence) and not has_tool_results
        self.evidence_is_numbered = callable(settings.evidence) or is_numbered
        if settings.evidence == "prompt" and prompts.system_text:
            prompt = Passage(prompts.system_text, "system-prompt")
            evidence += (RetrievedEvidence((prompt,)),)
        self.evidence = (*evidence, *earlier_evidence(messages))
        if not self.evidence:
            log_fallback(self.name, NO_EVIDENCE, "the answer cannot be checked")
        loop = settings.verifier.loop_for(request.model)
        # Drafts rejected before a tool call count too, or the turn might never end.
        state: Any = request.state
        self.counts = {key: state.get(key, 0) for key in COUNT_KEYS}
        rejected_count = max(len(rejected_texts), self.counts[REJECTED_COUNT_KEY])
        self.counts[REJECTED_COUNT_KEY] = rejected_count
        self.loop = loop.with_limits(
            attempts=max(1, loop.limits.attempts - rejected_count)
        )

    def draft(self, request: DraftRequest) -> DraftReply:
        """The first response, or another one with feedback."""
        response = self.first_response
        if request.attempt > 0:
            response = self.handler(self._redraft_request(request))
        return self._read_reply(response)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """`draft` for async."""
        response = self.first_response
        if request.attempt > 0:
            response = await self.handler(self._redraft_request(request))
        return self._read_reply(response)

    def _redraft_request(self, request: DraftRequest) -> AgentRequest:
        self.extra_calls += 1
        return self.request.override(
            messages=[*self.request.messages, *feedback_messages(request)]
        )

    def _read_reply(self, response: AgentResponse) -> DraftReply:
        reply = Reply("")
        for message in response.result:
            if isinstance(message, AIMessage):
                reply = reply_from_message(message)
        claims = final_claims(response, self.answer_function)
        if claims is None:
            self.tool_response = response
            return DraftReply(reply.text, reply.usage, judge=False, origin=response)
        return DraftReply(
            claims.text,
            reply.usage,
            retrieved=self.evidence,
            fields=claims.fields,
            origin=response,
            citations=claims.citations,
            evidence_is_numbered=self.evidence_is_numbered,
        )

    def traced_loop(self) -> RunnableLambda[str, Record]:
        """The loop as a span from the question to the record of the answer."""
        return RunnableLambda(self._run_loop, self._arun_loop, name=self.name)

    def _run_loop(self, question: str) -> Record:
        self.answer = self.loop.answer(question, self.history, drafter=self)
        return answer_record(self.answer)

    async def _arun_loop(self, question: str) -> Record:
        self.answer = await self.loop.aanswer(question, self.history, drafter=self)
        return answer_record(self.answer)

    def response(self) -> VerifiedResponse:
        """The model's response with the answer, with the record in its message.

        Calls beyond the one that LangChain counts are added to its counts.
        """
        response = self.tool_response or self._answer_response()
        # In structured output a tool message may follow the model's message.
        position = last_position(response.result, AIMessage)
        if position is not None:
            messages = list(response.result)
            record = record_for_output(self.answer)
            messages[position] = attach_record(messages[position], record)
            response = replace(response, result=messages)
        if not self.extra_calls:
            return response
        counts = {key: count + self.extra_calls for key, count in self.counts.items()}
        return ExtendedModelResponse(response, Command(update=counts))

    def _answer_response(self) -> AgentResponse:
        best = self.answer.best
        response = self.first_response if best is None else best.origin
        has_other_text = best is None or best.candidate != self.answer.text
        if response.structured_response is None and has_other_text:
            # LangGraph streams each id once, and the draft may have been streamed: it
            # gives a new id to a message without one.
            update = {"content": self.answer.text, "id": None}
            [message] = response.result
            response = replace(response, result=[message.model_copy(update=update)])
        return response


def has_answer(response: AgentResponse) -> bool:
    """Whether there is something to judge: an object, or a text without tool calls."""
    if response.structured_response is not None:
        return True
    claims = final_claims(response)
    return bool(claims and claims.text.strip())


def final_claims(
    response: AgentResponse, answer: Callable[[Any], Any] | None = None
) -> ClaimedOutput | None:
    """What is judged of a final answer, which may be blank; None if it calls tools."""
    structured = response.structured_response
    if structured is not None:
        if isinstance(as_mapping(structured), Mapping):
            return extract_output_claims(structured, answer)
        return ClaimedOutput(json.dumps(structured, default=str))
    # Several messages are a call of tools in progress, not an answer.
    if len(response.result) != 1:
        return None
    message = response.result[0]
    if not isinstance(message, AIMessage) or message.tool_calls:
        return None
    return extract_output_claims(message, None)


def collect_evidence(
    messages: Messages, source: EvidenceFunction | EvidenceScope
) -> Evidence:
    """What the tools found, each with its search text.

    Without the results of a search for the words of a rejected draft. What was found
    before the first rejection stays.
    """
    if callable(source):
        return documents_evidence(source(messages))
    all_turns = source == "conversation"
    evidence = tools_evidence(messages, all_turns=all_turns)
    rejected_texts, first_position = earlier_rejections(messages)
    earlier = tools_evidence(messages[:first_position], all_turns=all_turns)
    user_texts = [item.text for item in messages if isinstance(item, HumanMessage)]
    known_words = content_words(" ".join(user_texts))
    for search in earlier:
        found_text = " ".join(map(with_title_line, search.passages))
        # A word that the model searched is no more known because a tool repeats it.
        found_words = set(content_words(found_text))
        known_words += found_words.difference(content_words(search.query or ""))
    return earlier + drop_contaminated_searches(
        " ".join(known_words), evidence[len(earlier) :], rejected_texts
    )


def earlier_rejections(messages: Messages) -> tuple[list[str], int]:
    """The drafts rejected earlier in this turn, and the index where the first was."""
    texts = []
    first_position = len(messages)
    replies = ConversationTurn.from_messages(messages).replies
    for position, message in enumerate(replies, len(messages) - len(replies)):
        for attempt in stored_record(message).get("attempts") or ():
            if isinstance(attempt, dict) and attempt.get("outcome") == "fail":
                texts.append(str(attempt.get("text")))
                first_position = min(first_position, position)
    return texts, first_position
