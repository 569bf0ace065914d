"""`ChatModelLLM`: a LangChain model as the core's `LLM`; `as_llm` for any kind of model."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
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
from langchain_denoise.convert.documents import describe_value
from langchain_denoise.convert.messages import internal_config, to_langchain_messages
from langchain_denoise.models.bindings import AnyRunnable
from langchain_denoise.observe import Fields

_log = logging.getLogger("denoise.langchain")

# Runnables that answer with something else than a message.
_NO_MODELS = (BaseRetriever, BasePromptTemplate, BaseOutputParser, BaseTool)


class ChatModelLLM:
    """A chat model as the core's `LLM`.

    ``model`` is a chat model, any runnable from messages to one message, or a name for
    LangChain's ``init_chat_model`` such as ``"openai:gpt-4o-mini"`` (needs ``langchain``).
    Settings are bound as usual: ``ChatModelLLM(model.bind(temperature=0, seed=1))``,
    ``model.with_config(tags=[...])``, ``model.with_retry()``,
    ``model.with_fallbacks([...])``. A call is traced under the run it is made in, is
    tagged ``nostream`` and never appears in a user's token stream.

    ``structured``: whether a reply with a JSON schema is requested through
    ``with_structured_output``. None tries it once: if the model or its server rejects it,
    replies are requested as text from then on. A model with bound settings always replies
    as text, because ``with_structured_output`` would lose them. If the model does not
    follow the schema, the caller parses the reply's text.

    >>> from denoise_core import Message
    >>> from langchain_core.language_models import GenericFakeChatModel
    >>> model = GenericFakeChatModel(messages=iter(["Paris."]))
    >>> ChatModelLLM(model).complete([Message("user", "Where is the tower?")]).text
    'Paris.'
    """

    def __init__(
        self,
        model: Runnable[Any, BaseMessage] | Runnable[Any, str] | str,
        *,
        structured: bool | None = None,
    ) -> None:
        if isinstance(model, str):
            model = _model_by_name(model)
        if not isinstance(model, Runnable) or isinstance(model, _NO_MODELS):
            raise InputError(
                f"model: expected a LangChain chat model, got {type(model).__name__}"
            )
        is_chat_model = isinstance(model, BaseChatModel)
        if structured and not is_chat_model:
            raise InputError(
                f"structured=True: {type(model).__name__} is no chat model, and "
                "with_structured_output would leave behind what it sets; give the chat "
                "model itself"
            )
        self.model: AnyRunnable = model
        self.structured: bool | None = structured if is_chat_model else False

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The model's reply to the messages."""
        prompt = to_langchain_messages(messages)
        return reply_from_message(self.model.invoke(prompt, internal_config()))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """`complete` for async."""
        prompt = to_langchain_messages(messages)
        return reply_from_message(await self.model.ainvoke(prompt, internal_config()))

    def complete_json(self, messages: Sequence[Message], schema: Fields) -> Reply:
        """As `complete`; the text is JSON by the schema if the model supports it."""
        if self.structured is not False:
            prompt = to_langchain_messages(messages)
            try:
                answer = self._with_schema(schema).invoke(prompt, internal_config())
                return self._json_reply(answer)
            except Exception as error:
                self._raise_unless_rejected(error)
        # If plain text fails too, this raises, and JSON mode is not to blame.
        reply = self.complete(messages)
        self._switch_to_text("takes no form of JSON")
        return reply

    async def acomplete_json(
        self, messages: Sequence[Message], schema: Fields
    ) -> Reply:
        """`complete_json` for async."""
        if self.structured is not False:
            prompt = to_langchain_messages(messages)
            try:
                model = self._with_schema(schema)
                return self._json_reply(await model.ainvoke(prompt, internal_config()))
            except Exception as error:
                self._raise_unless_rejected(error)
        reply = await self.acomplete(messages)
        self._switch_to_text("takes no form of JSON")
        return reply

    def _with_schema(self, schema: Fields) -> AnyRunnable:
        # LangChain needs a name for the schema.
        named_schema = {"title": "reply", "description": "The reply.", **schema}
        model = cast(BaseChatModel, self.model)
        return model.with_structured_output(named_schema, include_raw=True)

    def _raise_unless_rejected(self, error: Exception) -> None:
        """Raise an error that is no rejection of JSON mode.

        None is one any more, once a structured reply has worked.
        """
        is_rejection = isinstance(error, ValueError) or rejects_json_mode(error)
        if self.structured or not is_rejection:
            raise error

    def _switch_to_text(self, reason: str) -> None:
        if self.structured is None:
            self.structured = False
            _log.info(
                "%s %s: asked for text from now on", type(self.model).__name__, reason
            )

    def _json_reply(self, answer: Fields) -> Reply:
        """The parsed object of an ``include_raw`` answer as JSON, else the raw text."""
        raw_reply = reply_from_message(answer["raw"])
        if answer["parsed"] is None:
            self._switch_to_text("does not keep to a schema")
            return raw_reply
        self.structured = True
        return Reply(json.dumps(answer["parsed"], ensure_ascii=False), raw_reply.usage)


def as_llm(model: Any, argument: str = "model") -> LLM:
    """A chat model, a runnable, a name or a core `LLM`, as a core `LLM`.

    Raises:
        InputError: For anything else; ``argument`` names it in the message.
    """
    if isinstance(model, (str, Runnable)):
        return ChatModelLLM(model)
    if isinstance(model, LLM) and not isinstance(model, type):
        return model
    raise InputError(
        f"{argument}: expected a chat model, a runnable, a name such as "
        f"'openai:gpt-4o-mini', or a denoise_core LLM, got "
        f"{describe_value(model)}"
    )


def _model_by_name(name: str) -> AnyRunnable:
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"model={name!r}: a model by its name needs langchain; run: "
            "pip install 'rag-denoise[agents]'"
        ) from error
    return init_chat_model(name)


def reply_from_message(message: Any) -> Reply:
    """A model's message, or a string, as a `Reply` with the tokens it reports.

    Raises:
        ContractViolation: For anything else.
    """
    if isinstance(message, str):
        return Reply(message)
    if not isinstance(message, BaseMessage):
        raise ContractViolation(
            f"expected the model to answer with a message, got {type(message).__name__}"
        )
    # A reply from LangChain's cache reports a cost, and maybe no tokens.
    reported = getattr(message, "usage_metadata", None) or {}
    usage = Usage.from_report(
        reported.get("input_tokens"), reported.get("output_tokens")
    )
    return Reply(str(message.text), usage)
