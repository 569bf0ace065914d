"""One set of weights in one process: the core's local model as a chat model, a pipeline's loaded one for END."""

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
from langchain_denoise.models.chat_llm import ChatModelLLM


class LocalChatModel(BaseChatModel):
    """``llm`` as a chat model: text in, text out, whole or streamed, with tokens and the reason it ended.

    ``LocalChatModel(llm=reader())`` needs nothing beyond what END needs; ``llm.model`` and ``llm.tokenizer``, once
    loaded, serve END as well. Settings are the `LocalLLM`'s; a call may give ``stop``. It has no tools and reads
    no images: messages that hold more than text raise `InputError`.

    >>> LocalChatModel(llm=LocalLLM("models/tiny")).model_name  # loaded at the first call
    'tiny'
    """

    llm: LocalLLM

    @property
    def _llm_type(self) -> str:
        return "denoise-local"

    @property
    def model_name(self) -> str:
        """The folder's name, or what the loaded model calls itself."""
        model = self.llm.model
        name = Path(
            model
            if isinstance(model, str | Path)
            else getattr(model, "name_or_path", "")
        ).name
        return name or type(model).__name__

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What a reply depends on: the model and every setting. A cache asks by this."""
        llm = self.llm
        model = llm.model
        return {
            "model_name": self.model_name,
            "model": str(model) if isinstance(model, str | Path) else _identity(model),
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
                f"a local model takes no {', '.join(sorted(kwargs))}; its settings are the LocalLLM's"
            )
        llm = self.llm.with_settings(stop=stop) if stop else self.llm
        pieces = llm.stream([_text(m) for m in messages])
        try:
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as done:
                    yield _last(done.value, self.model_name)
                    return
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager is not None:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
        finally:
            pieces.close()


def local_model(model: ChatModelLLM | Runnable[Any, Any]) -> tuple[Any, Any]:
    """``(model, tokenizer)``: the very objects inside a ``HuggingFacePipeline`` or a ``ChatHuggingFace`` over one.

    ``ProbeScorer(model, probe, tokenizer=tokenizer)`` reads their first layers and changes nothing. Settings
    around the model (``bind``, ``with_retry``, `ChatModelLLM`) are looked through; nothing is loaded here. Raises
    `InputError` for a model that runs somewhere else (an endpoint, a hosted API) or holds no tokenizer.

    >>> from langchain_denoise.testing import FunctionChatModel
    >>> local_model(FunctionChatModel(reply=str))
    Traceback (most recent call last):
    denoise_core.errors.InputError: expected a HuggingFacePipeline or a ChatHuggingFace over one, got ...
    """
    found: Any = model.model if isinstance(model, ChatModelLLM) else model
    while getattr(found, "pipeline", None) is None:
        if isinstance(found, RunnableBindingBase):
            found = found.bound
        elif isinstance(
            getattr(found, "llm", None), Runnable
        ):  # ChatHuggingFace keeps its pipeline model there
            found = found.llm
        else:
            raise InputError(
                f"expected a HuggingFacePipeline or a ChatHuggingFace over one, got {type(found).__name__}, which "
                "holds no pipeline; give END the model by name instead, or the object you loaded"
            )
    inner, tokenizer = (
        getattr(found.pipeline, "model", None),
        getattr(found.pipeline, "tokenizer", None),
    )
    if not callable(getattr(inner, "named_parameters", None)) or tokenizer is None:
        raise InputError(
            f"the pipeline of {type(found).__name__} holds no PyTorch model with its tokenizer: model is a "
            f"{type(inner).__name__}, tokenizer a {type(tokenizer).__name__}"
        )
    return inner, tokenizer


_seen: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _identity(model: Any) -> str:
    """A name for one loaded model, which no other in this process has had."""
    if model not in _seen:
        _seen[model] = f"loaded-{uuid4().hex[:12]}"
    return _seen[model]


def _last(ended: GenerationEnd, model_name: str) -> ChatGenerationChunk:
    """The chunk that says how it ended, without text."""
    used = ended.usage
    message = AIMessageChunk(
        content="",
        usage_metadata=UsageMetadata(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total,
        ),
        response_metadata={
            "finish_reason": "length" if ended.is_truncated else "stop",
            "model_name": model_name,
        },
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _text(message: BaseMessage) -> Message:
    if message.type not in ("system", "human", "ai"):
        raise InputError(
            f"a local model reads system, human and ai messages, not {message.type!r}"
        )
    parts = message.content if isinstance(message.content, list) else []
    if getattr(message, "tool_calls", None) or any(
        isinstance(p, dict) and p.get("type") != "text" for p in parts
    ):
        raise InputError(
            "a local model reads text alone: this message holds a tool call, an image or the like"
        )
    if message.type == "system":
        return Message("system", message.text)
    return Message("user" if message.type == "human" else "assistant", message.text)
