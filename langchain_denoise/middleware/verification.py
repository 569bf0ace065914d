"""`VerificationMiddleware`: an agent's final answer is held against what its tools found before it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import is_dataclass, replace
from typing import Any, Literal

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.middleware.model_call_limit import ModelCallLimitState
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import set_config_context
from langchain_core.runnables.utils import coro_with_context
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import override

from denoise_core import InputError, Usage
from denoise_core.augmenter import Answer
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, RetrievedEvidence
from denoise_core.augmenter.drafting.contamination import drop_contaminated_searches
from denoise_core.augmenter.streaming import Show
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.runtime.record import RECORD_KEY
from denoise_core.tool_results import arguments_text
from langchain_denoise.convert.chain_values import (
    attach_record,
    evidence_passages,
    tool_passages,
)
from langchain_denoise.convert.claims import (
    ClaimedOutput,
    extract_claims,
    replace_claim_text,
    resolve_sources,
    validate_claims,
)
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.middleware.base import AsyncHandler, Handler, NamedMiddleware
from langchain_denoise.observe import short_record
from langchain_denoise.verification.redraft import RedraftRequest
from langchain_denoise.verification.verifier import (
    Verifier,
    annotate_message,
    history_before_question,
)

EvidenceFunction = Callable[[Sequence[BaseMessage]], Any]
EvidenceScope = Literal["turn", "conversation"]
Result = ModelResponse[Any] | ExtendedModelResponse[Any]
CALL_COUNT_KEYS = ("thread_model_call_count", "run_model_call_count")


class VerificationMiddleware(NamedMiddleware):
    """Judges the answer, has the model write it again with feedback, and gives the best.

    Only the last model call is repeated, with the same tool results: no tool runs twice. A reply with tool calls
    passes unjudged; of a structured one the fields are judged that `verified` judges, or ``claims``. The evidence
    is what the tools brought since the user's last message, in the whole conversation with
    ``evidence="conversation"``, or what a function of the messages gives: documents or strings.

    Rejected drafts and feedback never become messages of the agent. The answer streams as one message, once it is
    known how far it holds; with ``show="draft"`` the first draft streams token by token as the model writes
    it, and the message that follows is the one that holds. A model that answers feedback with another tool call
    gets it, and is judged again afterwards; the drafts of the whole turn count towards
    ``verifier.limits.attempts``, so that the loop ends.

    The record, rejected drafts included, is in the answer's ``response_metadata["denoise"]``, which models are
    not sent, and without the drafts' words in a span of the middleware's name. Further calls of the model count in
    ``ModelCallLimitMiddleware``, which stops what comes after them; ``verifier.limits`` bounds them themselves.
    """

    state_schema = (
        ModelCallLimitState  # the counts of calls that LangChain's limit reads
    )

    def __init__(
        self,
        verifier: Verifier | None = None,
        *,
        evidence: EvidenceFunction | EvidenceScope = "turn",
        show: Show = "checked",
        claims: Sequence[str] | None = None,
        name: str = "VerificationMiddleware",
    ) -> None:
        super().__init__(name)
        if verifier is not None and not isinstance(verifier, Verifier):
            raise InputError(
                f"verifier: expected a Verifier, got {type(verifier).__name__}; Verifier(judge=...)"
            )
        if not callable(evidence) and evidence not in ("turn", "conversation"):
            raise InputError(
                f"evidence={evidence!r}: expected 'turn', 'conversation' or a function of the messages"
            )
        if show not in ("draft", "checked"):
            raise InputError(f"show={show!r}: expected 'draft' or 'checked'")
        self.verifier = verifier or Verifier()
        self.evidence: EvidenceFunction | EvidenceScope = evidence
        self.show = show
        self.claims = validate_claims(claims)

    @override
    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Result:
        with self._quiet() as context:
            first = (
                handler(request) if context is None else context.run(handler, request)
            )
        if final_claims(first) is None:
            return first
        drafts = ModelDrafter(self, request, first, handler, None)

        def judged(question: str) -> dict[str, Any]:
            answer = drafts.loop.answer(question, drafts.history, drafter=drafts)
            return drafts.record_answer(answer)

        RunnableLambda(judged, name=self.name).invoke(
            drafts.question, internal_config()
        )
        return drafts.response()

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> Result:
        with self._quiet() as context:
            first = await (
                handler(request)
                if context is None
                else coro_with_context(handler(request), context, create_task=True)
            )
        if final_claims(first) is None:
            return first
        drafts = ModelDrafter(self, request, first, None, handler)

        async def judged(question: str) -> dict[str, Any]:
            answer = await drafts.loop.aanswer(question, drafts.history, drafter=drafts)
            return drafts.record_answer(answer)

        await RunnableLambda(judged, name=self.name).ainvoke(
            drafts.question, internal_config()
        )
        return drafts.response()

    def _quiet(self) -> Any:
        """The first draft out of the user's stream, unless it is to be shown."""
        return (
            nullcontext()
            if self.show == "draft"
            else set_config_context(internal_config())
        )


class ModelDrafter:
    """One final answer's way: the first draft is there, others are asked of the model; a core `Drafter`."""

    repeatable = True  # a model call alone: the tools are not asked again

    def __init__(
        self,
        settings: VerificationMiddleware,
        request: ModelRequest[Any],
        first: ModelResponse[Any],
        ask: Handler | None,
        aask: AsyncHandler | None,
    ) -> None:
        self.request = request
        self.claims = settings.claims
        self.verifier = settings.verifier
        self.first = first
        self.ask = ask
        self.aask = aask
        self.more = 0  # calls of the model beyond the first
        self.wants_tools: ModelResponse[Any] | None = None
        said = request.messages
        self.earlier = [a["text"] for a in earlier_attempts(said)]
        self.found = collect_evidence(said, settings.evidence, self.earlier)
        left = max(1, settings.verifier.limits.attempts - len(self.earlier))
        self.loop = settings.verifier.loop_with_limits(attempts=left)

    @property
    def question(self) -> str:
        asked = (
            m for m in reversed(self.request.messages) if isinstance(m, HumanMessage)
        )
        return str(next(asked, HumanMessage("")).text).strip() or "(no question)"

    @property
    def history(self) -> Any:
        return history_before_question(self.request.messages)

    def draft(self, request: DraftRequest) -> DraftReply:
        if request.attempt == 0 or self.ask is None:
            return self._drafted(self.first)
        return self._drafted(self.ask(self._again(request)))

    async def adraft(self, request: DraftRequest) -> DraftReply:
        if request.attempt == 0 or self.aask is None:
            return self._drafted(self.first)
        return self._drafted(await self.aask(self._again(request)))

    def _again(self, request: DraftRequest) -> ModelRequest[Any]:
        told = RedraftRequest.from_request(request)
        self.more += 1
        return self.request.override(
            messages=[*self.request.messages, *(told.feedback_messages if told else [])]
        )

    def _drafted(self, response: ModelResponse[Any]) -> DraftReply:
        message = next(
            (m for m in reversed(response.result) if isinstance(m, AIMessage)),
            AIMessage(""),
        )
        usage = message.usage_metadata
        tokens = Usage(usage["input_tokens"], usage["output_tokens"]) if usage else None
        final = final_claims(response, self.claims)
        if final is None:
            self.wants_tools = response
            return DraftReply(str(message.text), tokens, judge=False, origin=response)
        return DraftReply(
            final.text,
            tokens,
            retrieved=self.found,
            fields=final.fields,
            origin=response,
        )

    def record_answer(self, answer: Answer) -> dict[str, Any]:
        """Notes the answer that the loop ended with; gives what its span shows."""
        self.answer = self.verifier.notify(answer)
        self.record = answer_record(self.answer)
        return short_record(self.record)

    def response(self) -> Result:
        """The model's response that brought the answer, with the record in its message; and where there was more
        than the one call that LangChain counts, with the others counted."""
        made = self._response(self.answer)
        if not self.more:
            return made
        state: Mapping[str, Any] = self.request.state
        counts = {name: state.get(name, 0) + self.more for name in CALL_COUNT_KEYS}
        return ExtendedModelResponse(made, Command(update=counts))

    def _response(self, answer: Answer) -> ModelResponse[Any]:
        if self.wants_tools is not None:
            return _with_last(self.wants_tools, self._noted)
        best = answer.best
        response: ModelResponse[Any] = (
            self.first if best is None or best.origin is None else best.origin
        )
        whole = best is not None and best.candidate == answer.text == _text(response)
        structured = response.structured_response
        if structured is not None:
            final = final_claims(response, self.claims) or ClaimedOutput()
            if best is not None and (
                sources := resolve_sources(final.sources, answer.memory.evidence)
            ):
                self.record["sources"] = sources
            if best is not None and final.fields is None and answer.text != final.text:
                response = replace(
                    response,
                    structured_response=replace_claim_text(
                        structured, answer.text, final.path
                    ),
                )
        elif not whole:
            response = _with_last(
                response, lambda m: m.model_copy(update={"content": answer.text})
            )
        if self.verifier.annotate and structured is None:
            response = _with_last(response, lambda m: annotate_message(m, answer))
        return _with_last(response, self._noted)

    def _noted(self, message: BaseMessage) -> Any:
        return attach_record(message, self.record)


def final_claims(
    response: ModelResponse[Any], claims: Sequence[str] | None = None
) -> ClaimedOutput | None:
    """What is judged of the final answer in a response; None when it calls tools or says nothing."""
    structured = response.structured_response
    if structured is not None:
        if isinstance(structured, BaseModel | Mapping) or is_dataclass(structured):
            return extract_claims(structured, None, claims)
        return ClaimedOutput(json.dumps(structured, default=str))
    if len(response.result) != 1:
        return None
    message = response.result[0]
    if (
        not isinstance(message, AIMessage)
        or message.tool_calls
        or not message.text.strip()
    ):
        return None
    return ClaimedOutput(str(message.text))


def collect_evidence(
    messages: Sequence[BaseMessage],
    where: EvidenceFunction | EvidenceScope,
    rejected: Sequence[str],
) -> tuple[RetrievedEvidence, ...]:
    """What the tools found, each with the words it was asked with; what a search for the words of an earlier
    rejected draft alone brought is left out."""
    if callable(where):
        passages = evidence_passages(where(messages))
        return (RetrievedEvidence(passages),) if passages else ()
    results = tool_passages(messages, all_turns=where == "conversation")
    found = [
        RetrievedEvidence(p, None if asked is None else arguments_text(asked))
        for asked, p in results
        if p
    ]
    said = " ".join(str(m.text) for m in messages if isinstance(m, HumanMessage))
    return drop_contaminated_searches(said, found, rejected)


def earlier_attempts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The records of the drafts that were judged earlier in this turn, in order."""
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        attempts = message.response_metadata.get(RECORD_KEY, {}).get("attempts", ())
        found = [
            *(a for a in attempts if a["outcome"] == "fail"),
            *found,
        ]
    return found


def _text(response: ModelResponse[Any]) -> str:
    return str(response.result[-1].text).strip()


def _with_last(
    response: ModelResponse[Any], change: Callable[[Any], Any]
) -> ModelResponse[Any]:
    """With the last message of the model changed; in structured output a tool message may follow it."""
    at = max(
        (i for i, m in enumerate(response.result) if isinstance(m, AIMessage)),
        default=None,
    )
    if at is None:
        return response
    result = list(response.result)
    result[at] = change(result[at])
    return replace(response, result=result)
