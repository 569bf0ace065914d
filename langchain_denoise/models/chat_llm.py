"""`ChatModelLLM`: a LangChain model as the core's `LLM`; `as_llm`, for whatever stands for a model."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from denoise_core import LLM, InputError, Message, MissingExtra, Reply, Usage
from denoise_core._frameworks import refuses_form
from denoise_core._secrets import Pickled
from denoise_core.errors import BrokenLaw
from langchain_denoise.convert.messages import internal_config, to_messages
from langchain_denoise.models.structured import WAYS, can_structure, has_structure, held_to, is_greedy

_log = logging.getLogger("denoise.langchain")


class ChatModelLLM(Pickled):
    """A chat model as the core's `LLM`.

    ``model`` is a chat model, any runnable that takes messages and gives one, or a name for LangChain's
    ``init_chat_model`` such as ``"openai:gpt-4o-mini"`` (needs ``langchain``). Settings go in as usual:
    ``ChatModelLLM(model.bind(stop=["\\n\\n"], temperature=0, seed=1))``, ``model.with_config(tags=[...])``,
    ``model.with_retry()``, ``model.with_fallbacks([...])``; they hold for structured replies too. A call is
    traced under the run it is made in, is tagged ``nostream`` and never appears in a user's token stream.

    ``structured``: whether a reply that has a JSON schema is asked for through ``with_structured_output``,
    strictly: by the server's own schemas, else by a tool. None finds it by asking once, unless the model's profile
    says that it can, and remembers it; what the model or its server refuses is asked for in the next way in the
    same call, and as text in the end. When the model does not keep to the schema after all, the reply's text is
    handed on for the caller to parse. A pickle holds no key: one that is loaded is given its key anew.

    >>> from denoise_core import Message
    >>> from langchain_denoise.testing import FunctionChatModel
    >>> model = FunctionChatModel(reply=lambda messages: "Paris.")
    >>> ChatModelLLM(model).complete([Message("user", "Where is the tower?")]).text
    'Paris.'
    """

    def __init__(self, model: Runnable[Any, Any] | str, *, structured: bool | None = None) -> None:
        model = _by_name(model) if isinstance(model, str) else model
        _no_other_part(model, "model")
        if not isinstance(model, Runnable):
            raise InputError(
                f"expected a LangChain chat model, got {type(model).__name__}; "
                "a denoise_core LLM needs no ChatModelLLM around it"
            )
        if structured and not has_structure(model):
            raise InputError(f"structured=True: {type(model).__name__} has no with_structured_output")
        self.model = model
        self.structured: bool | None = structured
        if structured is None:
            self.structured = True if can_structure(model) else None if has_structure(model) else False
        self._way, self._held = 0, False

    def complete(self, messages: Sequence[Message]) -> Reply:
        return to_reply(self.model.invoke(to_messages(messages), internal_config()))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return to_reply(await self.model.ainvoke(to_messages(messages), internal_config()))

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """The reply in pieces as the model writes it, and at the end the tokens it reports."""
        whole: Any = None
        for chunk in self.model.stream(to_messages(messages), internal_config()):
            whole = chunk if whole is None else whole + chunk
            if text := to_reply(chunk).text:
                yield text
        if whole is not None and (usage := to_reply(whole).usage) is not None:
            yield usage

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Usage]:
        """`stream` for async."""
        whole: Any = None
        async for chunk in self.model.astream(to_messages(messages), internal_config()):
            whole = chunk if whole is None else whole + chunk
            if text := to_reply(chunk).text:
                yield text
        if whole is not None and (usage := to_reply(whole).usage) is not None:
            yield usage

    def varied(self, attempt: int) -> ChatModelLLM:
        """The same model sampling, where it is set to temperature 0 and would repeat itself; else itself."""
        if not is_greedy(self.model):
            return self
        return ChatModelLLM(self.model.bind(temperature=0.7), structured=self.structured)

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """As `complete`; the reply's text is JSON by the schema where the model can be held to one."""
        tried = self._way
        while (asked := self._held_to(schema, tried)) is not None:
            tried, held = asked
            try:
                return self._json_reply(held.invoke(to_messages(messages), internal_config()), tried)
            except Exception as error:
                tried = self._next(tried, error)
        reply = self.complete(messages)
        self._text_only("takes no form of JSON")
        return reply

    async def acomplete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """`complete_json` for async."""
        tried = self._way
        while (asked := self._held_to(schema, tried)) is not None:
            tried, held = asked
            try:
                return self._json_reply(await held.ainvoke(to_messages(messages), internal_config()), tried)
            except Exception as error:
                tried = self._next(tried, error)
        reply = await self.acomplete(messages)
        self._text_only("takes no form of JSON")
        return reply

    def _held_to(self, schema: Mapping[str, Any], way: int) -> tuple[int, Runnable[Any, Any]] | None:
        """The first of the ways from this one on in which the model can be held to the schema, and the model held
        so; None when it is asked for text."""
        titled = {"title": "reply", "description": "The reply.", **schema}  # LangChain needs a name for it
        while self.structured is not False and way < len(WAYS):
            try:
                held = held_to(self.model, titled, internal_config(), WAYS[way])
            except (NotImplementedError, TypeError, ValueError) as error:
                way = self._next(way, error)
                continue
            if held is not None:
                return way, held
            why = "cannot be held to a JSON schema without losing the settings around it"
            self._text_only(why, logging.WARNING)
        return None

    def _next(self, way: int, error: Exception) -> int:
        """The way after one that was refused. Raises what is no refusal of the form: it never is once one has
        brought a reply, nor from the last where the model was said to be able."""
        refused = isinstance(error, ValueError) or refuses_form(error)
        if not refused or self._held or (way + 1 == len(WAYS) and self.structured):
            raise error
        return way + 1

    def _text_only(self, why: str, level: int = logging.INFO) -> None:
        if self.structured is not False:
            self.structured = False
            _log.log(level, "%s %s: asked for text from now on", type(self.model).__name__, why)

    def _json_reply(self, answer: Mapping[str, Any], way: int) -> Reply:
        """The reply in LangChain's ``include_raw`` form: the parsed object as JSON, else the raw text."""
        raw = to_reply(answer["raw"])
        self._way = way
        if answer["parsed"] is not None:
            self.structured = self._held = True
            return Reply(json.dumps(answer["parsed"], ensure_ascii=False), raw.usage)
        if self.structured is None:
            self._text_only("does not keep to a schema")
        return raw


def as_llm(model: Any, name: str = "model") -> LLM:
    """A chat model, a runnable, a name for ``init_chat_model``, or a core `LLM`, as a core `LLM`.

    Raises `InputError` that says what came for anything else.
    """
    if isinstance(model, (str, Runnable)):
        return ChatModelLLM(model)
    if isinstance(model, LLM) and not isinstance(model, type):
        return model
    kind = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    raise InputError(
        f"{name}: expected a chat model, a runnable, a name such as 'openai:gpt-4o-mini', or a denoise_core LLM, "
        f"got {kind}"
    )


def _no_other_part(model: Any, name: str) -> None:
    """Raises `InputError` for a runnable that is surely no model: a retriever, a prompt, a parser, a tool."""
    if isinstance(model, BaseRetriever):
        raise InputError(f"{name}: {type(model).__name__} is a retriever; a chat model goes here")
    if isinstance(model, (BasePromptTemplate, BaseOutputParser, BaseTool)):
        raise InputError(f"{name}: {type(model).__name__} is no chat model; give the model that stands beside it")


@lru_cache(maxsize=16)
def _by_name(name: str) -> Runnable[Any, Any]:
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"model={name!r}: a model by its name needs langchain; run: pip install 'rag-denoise[agents]'"
        ) from error
    return init_chat_model(name)


def to_reply(message: Any) -> Reply:
    """A model's message, or the text of a chain that ends in a parser, as a `Reply` with the tokens it reports."""
    if isinstance(message, str):
        return Reply(message)
    if not isinstance(message, BaseMessage):
        raise BrokenLaw(f"expected the model to answer with a message, got {type(message).__name__}")
    usage = getattr(message, "usage_metadata", None)
    tokens = Usage.reported(usage["input_tokens"], usage["output_tokens"]) if usage else None
    return Reply(str(message.text), tokens)
