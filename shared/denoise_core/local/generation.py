"""A local Hugging Face model as an `LLM`: nothing leaves the machine, and the object END reads can answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.local.chat_template import (
    render_chat,
    start_token_ids,
    tokenize_texts,
)
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Message, Reply, Usage


class LocalLLM:
    """Generates with ``model``: a causal language model object and its tokenizer, or a name or folder.

    A name or folder is loaded at the first call, once in a process, without running code that comes with it.
    Messages go through the tokenizer's chat template, or without one are put one under the other.
    Decoding is greedy. Calls from several threads take turns: one generation fills the device. A reply ends where
    the model's window ends.

    Raises `InputError` for a prompt that leaves no room in the window, a model that cannot be loaded, and a
    model object without a tokenizer.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_new_tokens: int = 256,
    ) -> None:
        if tokenizer is None and not isinstance(model, str | Path):
            raise InputError(
                "a loaded model needs its tokenizer: LocalLLM(model, tokenizer)"
            )
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
        self.model: Any = model
        self.tokenizer: Any = tokenizer
        self.max_new_tokens = max_new_tokens
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The whole reply, up to ``max_new_tokens``."""
        inputs = self._prompt_inputs(messages)
        prompt_length = inputs["input_ids"].shape[1]
        with self._lock:
            reply_ids = self._generate(**inputs)[0, prompt_length:]
        return Reply(self._decode(reply_ids), Usage(prompt_length, len(reply_ids)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """`complete` in a worker thread."""
        return await run_in_pool(self.complete, messages)

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, None]:
        """Pieces of the reply as they are made; joined they are `complete`'s text.

        Generation runs in a thread; letting the iterator go stops it at the next token. What goes wrong there is
        raised here.
        """
        inputs = self._prompt_inputs(messages)
        prompt_length = inputs["input_ids"].shape[1]
        token_queue = TokenQueue()
        is_abandoned = threading.Event()

        def has_to_stop(ids: Any, scores: Any, **_: Any) -> Any:
            return ids.new_full((len(ids),), is_abandoned.is_set()).bool()

        def generate_in_thread() -> None:
            try:
                with self._lock:
                    if not is_abandoned.is_set():
                        self._generate(
                            **inputs,
                            streamer=token_queue,
                            stopping_criteria=[has_to_stop],
                        )
            except BaseException as error:
                token_queue.put(error)
            finally:
                token_queue.end()

        thread = threading.Thread(
            target=generate_in_thread, name="denoise-generate", daemon=True
        )
        thread.start()
        ids = []
        shown_text = text = ""
        try:
            while (item := token_queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                ids += item.reshape(-1).tolist()
                # All of it: the space before a word depends on what is before that.
                text = self._decode(ids[prompt_length:])
                is_whole = not text.endswith(_PARTIAL_CHARACTER)
                if is_whole and len(text) > len(shown_text):
                    yield text[len(shown_text) :]
                    shown_text = text
            if len(text) > len(shown_text):
                yield text[len(shown_text) :]
        finally:
            is_abandoned.set()
            thread.join()

    def load(self) -> None:
        """Load a model given by name or folder; else done at the first call. Raises `InputError`."""
        with self._lock:
            if not isinstance(self.model, str | Path):
                return
            from denoise_core.local.loading import load_tokenizer, shared_model

            model = shared_model(self.model, has_lm_head=True)
            self.tokenizer = self.tokenizer or load_tokenizer(self.model)
            self.model = model

    def _generate(self, **inputs: Any) -> Any:
        options = self._generation_options(inputs["input_ids"].shape[1])
        return self.model.generate(**inputs, **options)

    def _decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _prompt_inputs(self, messages: Sequence[Message]) -> dict[str, Any]:
        self.load()
        return self._input_row(tokenize_messages(self.tokenizer, messages))

    def _input_row(self, ids: Sequence[int]) -> dict[str, Any]:
        torch = require("torch", extra="end")
        max_positions = self._max_positions()
        if max_positions is not None and len(ids) >= max_positions:
            raise InputError(
                f"the prompt has {len(ids)} tokens and the model's window is {max_positions}: keep fewer passages "
                "(ENDDenoiser(keep=...)) or take a model with a longer window"
            )
        id_row = torch.tensor([list(ids)], device=self.model.device)
        return {"input_ids": id_row, "attention_mask": torch.ones_like(id_row)}

    def _max_positions(self) -> int | None:
        return getattr(
            self.model.config.get_text_config(), "max_position_embeddings", None
        )

    def _generation_options(self, prompt_length: int) -> dict[str, Any]:
        max_new_tokens = self.max_new_tokens
        max_positions = self._max_positions()
        if max_positions is not None:
            # Past the window a model knows no position.
            max_new_tokens = min(max_new_tokens, max_positions - prompt_length)
        padding_id = self.tokenizer.pad_token_id
        if padding_id is None:
            padding_id = self.tokenizer.eos_token_id
        return {
            "max_new_tokens": max_new_tokens,
            "do_sample": False,
            "pad_token_id": int(padding_id),
        }


def tokenize_messages(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Messages as token ids. A message that spells a special token stays text: only the template's count.

    Raises `InputError` when the chat template
    refuses the conversation or changes a message.
    """
    if not getattr(tokenizer, "chat_template", None):
        text = "\n\n".join(message.content for message in messages)
        (text_ids,) = tokenize_texts(tokenizer, [text], is_trusted=False)
        return [*start_token_ids(tokenizer), *text_ids]
    turns = [(message.role, [message]) for message in messages]
    pieces = render_chat(tokenizer, turns)
    token_ids = []
    for piece in pieces:
        is_template = isinstance(piece, str)
        text = piece if is_template else piece.content
        (piece_ids,) = tokenize_texts(tokenizer, [text], is_trusted=is_template)
        token_ids += piece_ids
    return token_ids


_PARTIAL_CHARACTER = "\ufffd"  # what a decoder makes of the first bytes of a character


class TokenQueue(queue.SimpleQueue[Any]):
    """What ``generate`` takes as its ``streamer``: the prompt's ids, then each new token's, then None."""

    def end(self) -> None:
        """Say that no token follows; `generate` calls it after the last one."""
        self.put(None)
