"""One set of weights in one process.

The core's local model as a chat model, and the loaded model of a pipeline for END.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from denoise_core import InputError, Message
from denoise_core.end import LocalLLM
from denoise_core.local.generation import GenerationEnd
from denoise_core.types import Role
from langchain_denoise.models.chat_llm import ChatModelLLM

_ROLES: dict[str, Role] = {"system": "system", "human": "user", "ai": "assistant"}


class LocalChatModel(BaseChatModel):
    """``llm`` as a chat model: text in, text out, at once or streamed.

    It reports tokens and the reason why the reply ended. ``LocalChatModel(llm=reader())``
    needs nothing that END does not need; ``llm.model`` and ``llm.tokenizer``, once loaded,
    serve END as well. Settings are the `LocalLLM`'s; a call may give ``stop``. It has no
    tools and reads no images: messages that hold more than text raise `InputError`.

    >>> LocalChatModel(llm=LocalLLM("models/tiny")).model_name  # loaded at the first call
    'tiny'
    """

    llm: LocalLLM

    @property
    def _llm_type(self) -> str:
        return "denoise-local"

    @property
    def model_name(self) -> str:
        """The folder's name, or the name that the loaded model reports."""
        model = self.llm.model
        is_path = isinstance(model, str | Path)
        path = model if is_path else getattr(model, "name_or_path", "")
        return Path(path).name or type(model).__name__

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """The model and every setting that a reply depends on: the key of a cache."""
        llm = self.llm
        is_path = isinstance(llm.model, str | Path)
        return {
            "model_name": self.model_name,
            "model": str(llm.model) if is_path else _loaded_model_id(llm.model),
            "max_new_tokens": llm.max_new_tokens,
            "temperature": llm.temperature,
            "seed": llm.seed,
            "stops": list(llm.stop),
        }

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if kwargs:
            raise InputError(
                f"a local model takes no {', '.join(sorted(kwargs))}; its settings are "
                "the LocalLLM's"
            )
        llm = self.llm.with_settings(stop=stop) if stop else self.llm
        texts = llm.stream([_text_message(message) for message in messages])
        try:
            while True:
                try:
                    text = next(texts)
                except StopIteration as end:
                    yield _last_chunk(end.value, self.model_name)
                    return
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=text))
                if run_manager is not None:
                    run_manager.on_llm_new_token(text, chunk=chunk)
                yield chunk
        finally:
            # A reader that leaves early must stop the generation.
            texts.close()


def local_model(model: ChatModelLLM | Runnable[Any, Any]) -> tuple[Any, Any]:
    """The loaded model of a ``HuggingFacePipeline`` or a ``ChatHuggingFace`` over one.

    ``ProbeScorer(model, probe, tokenizer=tokenizer)`` reads its first layers and changes
    nothing. Settings around the model (``bind``, ``with_retry``, `ChatModelLLM`) are
    looked through; nothing is loaded here.

    Returns:
        ``(model, tokenizer)``, the very objects inside the pipeline.

    Raises:
        InputError: For a model that runs somewhere else (an endpoint, a hosted API) or
            holds no tokenizer.

    >>> from langchain_denoise.testing import FunctionChatModel
    >>> local_model(FunctionChatModel(reply=str))
    Traceback (most recent call last):
    denoise_core.errors.InputError: expected a HuggingFacePipeline or a ChatHuggingFace ...
    """
    holder: Any = model.model if isinstance(model, ChatModelLLM) else model
    while getattr(holder, "pipeline", None) is None:
        if isinstance(holder, RunnableBindingBase):
            holder = holder.bound
        elif isinstance(getattr(holder, "llm", None), Runnable):
            holder = holder.llm  # ChatHuggingFace keeps its pipeline model there
        else:
            raise InputError(
                "expected a HuggingFacePipeline or a ChatHuggingFace over one, got "
                f"{type(holder).__name__}, which holds no pipeline; give END the model "
                "by name instead, or the object you loaded"
            )
    loaded_model = getattr(holder.pipeline, "model", None)
    tokenizer = getattr(holder.pipeline, "tokenizer", None)
    is_torch_model = callable(getattr(loaded_model, "named_parameters", None))
    if not is_torch_model or tokenizer is None:
        raise InputError(
            f"the pipeline of {type(holder).__name__} holds no PyTorch model with its "
            f"tokenizer: model is a {type(loaded_model).__name__}, tokenizer a "
            f"{type(tokenizer).__name__}"
        )
    return loaded_model, tokenizer


_loaded_model_ids: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _loaded_model_id(model: Any) -> str:
    """An id for one loaded model, which no other in this process has had."""
    # Python's id() may be reused after a model is freed.
    if model not in _loaded_model_ids:
        _loaded_model_ids[model] = f"loaded-{uuid4().hex[:12]}"
    return _loaded_model_ids[model]


def _last_chunk(end: GenerationEnd, model_name: str) -> ChatGenerationChunk:
    """The chunk without text that reports tokens and the reason of the end."""
    usage = UsageMetadata(
        input_tokens=end.usage.input_tokens,
        output_tokens=end.usage.output_tokens,
        total_tokens=end.usage.total,
    )
    finish_reason = "length" if end.is_truncated else "stop"
    message = AIMessageChunk(
        content="",
        usage_metadata=usage,
        response_metadata={"finish_reason": finish_reason, "model_name": model_name},
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _text_message(message: BaseMessage) -> Message:
    role = _ROLES.get(message.type)
    if role is None:
        raise InputError(
            f"a local model reads system, human and ai messages, not {message.type!r}"
        )
    blocks = message.content if isinstance(message.content, list) else []
    block_types = {block.get("type") for block in blocks if isinstance(block, dict)}
    if getattr(message, "tool_calls", None) or block_types - {"text"}:
        raise InputError(
            "a local model reads text alone: this message holds a tool call, an image or "
            "the like"
        )
    return Message(role, message.text)
