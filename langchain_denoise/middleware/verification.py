"""`VerificationMiddleware`: an agent's final answer is held against what its tools found before it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables.config import set_config_context
from langchain_core.runnables.utils import coro_with_context
from typing_extensions import override

from denoise_core import Message, Passage, Reply
from denoise_core.augmenter import Answer
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.running.record import KEY
from langchain_denoise.convert.messages import internal_config, to_messages
from langchain_denoise.convert.places import as_passages, tool_evidence, with_record
from langchain_denoise.verification.verifier import Verifier

Find = Callable[[Sequence[BaseMessage]], Any]


class VerificationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Judges the answer, has the model write it again with feedback, and gives the best.

    A reply with tool calls, and a structured one, passes unjudged. The evidence is what the tools brought since
    the user's last message, or what ``evidence``, a function of the messages, gives: documents or strings.
    Rejected drafts and feedback never become messages of the agent, nor reach a user's token stream: with
    this middleware the answer streams as one message, once it is known how far it holds. A model that answers
    feedback with another tool call gets it, and is judged again afterwards; the drafts of the whole turn count
    towards ``verifier.limits.attempts``, so that the loop ends. When the drafts after the tool call do not hold
    either, those before it are judged against what it brought, and the best of all is given.

    The record, rejected drafts included, is in the answer's ``response_metadata["denoise"]``, which models are
    not sent.
    """

    def __init__(
        self,
        verifier: Verifier | None = None,
        *,
        evidence: Find | None = None,
        name: str = "VerificationMiddleware",
    ) -> None:
        super().__init__()
        self.verifier = verifier or Verifier()
        self.evidence = evidence
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name

    @override
    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with set_config_context(internal_config()) as context:
            first = context.run(handler, request)
            if _answer_of(first) is None:
                return first
            drafts = ModelDrafts(self, request, first)
            drafts.ask = lambda again: context.copy().run(handler, again)
            return drafts.response(self._verifier(request).answer(drafts.question, drafts, drafts.earlier))

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        with set_config_context(internal_config()) as context:
            first = await coro_with_context(handler(request), context, create_task=True)
            if _answer_of(first) is None:
                return first
            drafts = ModelDrafts(self, request, first)
            drafts.aask = lambda again: coro_with_context(handler(again), context, create_task=True)
            return drafts.response(await self._verifier(request).aanswer(drafts.question, drafts, drafts.earlier))

    def _verifier(self, request: ModelRequest[Any]) -> Verifier:
        """With as many attempts as this turn has left."""
        v = self.verifier
        left = max(1, v.limits.attempts - len(_earlier_attempts(request.messages)))
        limits = replace(v.limits, attempts=left)
        return Verifier(utility=v.utility, feedback=v.feedback, limits=limits, budget=v.budget, task=v.task)


class ModelDrafts:
    """One final answer's way: the first draft is there already, others are asked of the model."""

    ask: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    aask: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

    def __init__(
        self, settings: VerificationMiddleware, request: ModelRequest[Any], first: ModelResponse[Any]
    ) -> None:
        self.request = request
        self.first = first
        self.responses: list[ModelResponse[Any]] = []
        self.wants_tools: ModelResponse[Any] | None = None
        find = settings.evidence
        said = request.messages
        self.evidence: Sequence[Passage] = as_passages(find(said)) if find else tool_evidence(said)

    @property
    def question(self) -> str:
        asked = (m for m in reversed(self.request.messages) if isinstance(m, HumanMessage))
        return str(next(asked, HumanMessage("")).text)

    @property
    def earlier(self) -> list[str]:
        """The drafts of this turn that came before a tool call."""
        return [a["text"] for a in _earlier_attempts(self.request.messages)]

    def complete(self, messages: Sequence[Message]) -> Reply:
        return self._take(self.first if not self.responses else self.ask(self._again(messages)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self._take(self.first if not self.responses else await self.aask(self._again(messages)))

    def _again(self, messages: Sequence[Message]) -> ModelRequest[Any]:
        said: list[Any] = [*self.request.messages, *to_messages(messages[1:])]
        return self.request.override(messages=said)

    def _take(self, response: ModelResponse[Any]) -> Reply:
        answer = _answer_of(response)
        if answer is None:
            self.wants_tools = response
            raise WantsTools("the model answered the feedback with a tool call")
        self.responses.append(response)
        return Reply(str(answer.text))

    def response(self, answer: Answer) -> ModelResponse[Any]:
        """The model's response that brought the answer, with the record in its message."""
        record = answer_record(answer)
        if self.wants_tools is not None:
            return _with_last(self.wants_tools, lambda m: with_record(m, record))
        best = next(i for i, a in enumerate(answer.memory.attempts) if a is answer.memory.best)
        response = self.responses[min(best, len(self.responses) - 1)]  # an earlier draft's message is gone
        if _text_of(response) == answer.text:
            return _with_last(response, lambda m: with_record(m, record))
        said = {"content": answer.text}
        return _with_last(response, lambda m: with_record(m.model_copy(update=said), record))


class WantsTools(Exception):
    """Ends the verification of one answer: the model wants to look something up first."""


def _answer_of(response: ModelResponse[Any]) -> AIMessage | None:
    """The final answer in a response; None when it calls tools, is structured, or says nothing."""
    if response.structured_response is not None or len(response.result) != 1:
        return None
    message = response.result[0]
    if not isinstance(message, AIMessage) or message.tool_calls or not message.text.strip():
        return None
    return message


def _earlier_attempts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The records of the drafts that were judged earlier in this turn, in order."""
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        found = [*message.response_metadata.get(KEY, {}).get("attempts", ()), *found]
    return found


def _text_of(response: ModelResponse[Any]) -> str:
    return str(response.result[-1].text).strip()


def _with_last(response: ModelResponse[Any], change: Callable[[Any], Any]) -> ModelResponse[Any]:
    return replace(response, result=[*response.result[:-1], change(response.result[-1])])
