"""`ChatModelLLM`: a LangChain model as the core's `LLM`; `as_llm`, for whatever stands for a model."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from denoise_core import LLM, InputError, Message, MissingExtra, Reply, Usage
from denoise_core._frameworks import rejects_json_mode
from denoise_core.errors import ContractViolation
from langchain_denoise.convert.messages import internal_config, to_langchain_messages
from langchain_denoise.models.bindings import is_greedy

_log = logging.getLogger("denoise.langchain")


class ChatModelLLM:
    """A chat model as the core's `LLM`.

    ``model`` is a chat model, any runnable that takes messages and gives one, or a name for LangChain's
    ``init_chat_model`` such as ``"openai:gpt-4o-mini"`` (needs ``langchain``). Settings go in as usual:
    ``ChatModelLLM(model.bind(temperature=0, seed=1))``, ``model.with_config(tags=[...])``, ``model.with_retry()``,
    ``model.with_fallbacks([...])``. A call is traced under the run it is made in, is tagged ``nostream`` and never
    appears in a user's token stream.

    ``structured``: whether a reply that has a JSON schema is asked for through ``with_structured_output``. None
    finds it by asking once: what the model or its server refuses is asked for as text from then on. A model with
    settings around it is always asked for text, because ``with_structured_output`` leaves them behind. When the
    model does not keep to the schema, the reply's text is handed on for the caller to parse.

    >>> from denoise_core import Message
    >>> from langchain_denoise.testing import FunctionChatModel
    >>> model = FunctionChatModel(reply=lambda messages: "Paris.")
    >>> ChatModelLLM(model).complete([Message("user", "Where is the tower?")]).text
    'Paris.'
    """

    def __init__(
        self, model: Runnable[Any, Any] | str, *, structured: bool | None = None
    ) -> None:
        model = _by_name(model) if isinstance(model, str) else model
        _no_other_part(model, "model")
        if not isinstance(model, Runnable):
            raise InputError(
                f"expected a LangChain chat model, got {type(model).__name__}; "
                "a denoise_core LLM needs no ChatModelLLM around it"
            )
        is_chat_model = isinstance(model, BaseChatModel)
        if structured and not is_chat_model:
            raise InputError(
                f"structured=True: {type(model).__name__} is no chat model, and with_structured_output would "
                "leave behind what it sets; give the chat model itself"
            )
        self.model = model
        self.structured: bool | None = structured if is_chat_model else False

    def complete(self, messages: Sequence[Message]) -> Reply:
        return reply_from_message(
            self.model.invoke(to_langchain_messages(messages), internal_config())
        )

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return reply_from_message(
            await self.model.ainvoke(to_langchain_messages(messages), internal_config())
        )

    def stream(self, messages: Sequence[Message]) -> Iterator[str | Usage]:
        """The reply in pieces as the model writes it, and at the end the tokens it reports."""
        whole: Any = None
        for chunk in self.model.stream(
            to_langchain_messages(messages), internal_config()
        ):
            whole = chunk if whole is None else whole + chunk
            if text := reply_from_message(chunk).text:
                yield text
        if whole is not None and (usage := reply_from_message(whole).usage) is not None:
            yield usage

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[str | Usage]:
        """`stream` for async."""
        whole: Any = None
        async for chunk in self.model.astream(
            to_langchain_messages(messages), internal_config()
        ):
            whole = chunk if whole is None else whole + chunk
            if text := reply_from_message(chunk).text:
                yield text
        if whole is not None and (usage := reply_from_message(whole).usage) is not None:
            yield usage

    def with_sampling(self, attempt: int) -> ChatModelLLM:
        """The same model sampling, where it is set to temperature 0 and would repeat itself; else itself."""
        if not is_greedy(self.model):
            return self
        return ChatModelLLM(
            self.model.bind(temperature=0.7), structured=self.structured
        )

    def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """As `complete`; the reply's text is JSON by the schema where the model can be held to one."""
        if self.structured is not False:
            try:
                answer = self._held_to(schema).invoke(
                    to_langchain_messages(messages), internal_config()
                )
                return self._json_reply(answer)
            except Exception as error:
                self._raise_unless_refused(error)
        reply = self.complete(
            messages
        )  # raises what is wrong with the text, and then the form is not to blame
        self._ask_for_text("takes no form of JSON")
        return reply

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Reply:
        """`complete_json` for async."""
        if self.structured is not False:
            try:
                answer = await self._held_to(schema).ainvoke(
                    to_langchain_messages(messages), internal_config()
                )
                return self._json_reply(answer)
            except Exception as error:
                self._raise_unless_refused(error)
        reply = await self.acomplete(messages)
        self._ask_for_text("takes no form of JSON")
        return reply

    def _held_to(self, schema: Mapping[str, Any]) -> Runnable[Any, Any]:
        titled = {
            "title": "reply",
            "description": "The reply.",
            **schema,
        }  # LangChain needs a name for it
        model = cast(BaseChatModel, self.model)
        return model.with_structured_output(titled, include_raw=True)

    def _raise_unless_refused(self, error: Exception) -> None:
        """Raise what is no refusal of the form; it never is one once the form has brought a reply."""
        if self.structured or not (
            isinstance(error, ValueError) or rejects_json_mode(error)
        ):
            raise error

    def _ask_for_text(self, why: str) -> None:
        if self.structured is None:
            self.structured = False
            _log.info(
                "%s %s: asked for text from now on", type(self.model).__name__, why
            )

    def _json_reply(self, answer: Mapping[str, Any]) -> Reply:
        """The reply in LangChain's ``include_raw`` form: the parsed object as JSON, else the raw text."""
        raw = reply_from_message(answer["raw"])
        if answer["parsed"] is not None:
            self.structured = True
            return Reply(json.dumps(answer["parsed"], ensure_ascii=False), raw.usage)
        self._ask_for_text("does not keep to a schema")
        return raw


def as_llm(model: Any, name: str = "model") -> LLM:
    """A chat model, a runnable, a name for ``init_chat_model``, or a core `LLM`, as a core `LLM`.

    Raises `InputError` that says what came for anything else.
    """
    if isinstance(model, (str, Runnable)):
        return ChatModelLLM(model)
    if isinstance(model, LLM) and not isinstance(model, type):
        return model
    kind = (
        f"the class {model.__name__}"
        if isinstance(model, type)
        else f"a {type(model).__name__}"
    )
    raise InputError(
        f"{name}: expected a chat model, a runnable, a name such as 'openai:gpt-4o-mini', or a denoise_core LLM, "
        f"got {kind}"
    )


def _no_other_part(model: Any, name: str) -> None:
    """Raises `InputError` for a runnable that is surely no model: a retriever, a prompt, a parser, a tool."""
    if isinstance(model, BaseRetriever):
        raise InputError(
            f"{name}: {type(model).__name__} is a retriever; a chat model goes here"
        )
    if isinstance(model, (BasePromptTemplate, BaseOutputParser, BaseTool)):
        raise InputError(
            f"{name}: {type(model).__name__} is no chat model; give the model that stands beside it"
        )


@lru_cache(maxsize=16)
def _by_name(name: str) -> Runnable[Any, Any]:
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"model={name!r}: a model by its name needs langchain; run: pip install 'rag-denoise[agents]'"
        ) from error
    return init_chat_model(name)


def reply_from_message(message: Any) -> Reply:
    """A model's message, or the text of a chain that ends in a parser, as a `Reply` with the tokens it reports."""
    if isinstance(message, str):
        return Reply(message)
    if not isinstance(message, BaseMessage):
        raise ContractViolation(
            f"expected the model to answer with a message, got {type(message).__name__}"
        )
    usage = getattr(message, "usage_metadata", None)
    tokens = (
        Usage.from_report(usage["input_tokens"], usage["output_tokens"])
        if usage
        else None
    )
    return Reply(str(message.text), tokens)
