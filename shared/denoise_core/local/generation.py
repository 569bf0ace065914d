"""A local Hugging Face model as an `LLM`: nothing leaves the machine, and the object END reads can answer."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.local.layout import tokenize_texts
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Message, Reply, Usage


class LocalLLM:
    """Generates with ``model``: a causal language model object and its tokenizer, or a name or folder.

    A name or folder is loaded at the first call, once in a process, without running code that comes with it.
    Messages go through the tokenizer's chat template, or without one are put one under the other.
    Decoding is greedy unless ``temperature`` is above 0. Calls from several threads take turns: one
    generation fills the device. ``seed`` makes sampling repeatable. A reply ends where the model's window ends.

    Raises `InputError` for a prompt that leaves no room in the window, a model that cannot be loaded, and a
    model object without a tokenizer.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if tokenizer is None and not isinstance(model, str | Path):
            raise InputError(
                "a loaded model needs its tokenizer: LocalLLM(model, tokenizer)"
            )
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
        if not 0 <= temperature < float("inf"):
            raise InputError(f"temperature={temperature}: expected 0 (greedy) or more")
        self.model: Any = model
        self.tokenizer: Any = tokenizer
        self.max_new_tokens = max_new_tokens
        self.temperature = float(temperature)  # transformers takes no int
        self.seed = seed
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The whole reply, up to ``max_new_tokens``."""
        inputs = self._prompt_inputs(messages)
        prompt_length = inputs["input_ids"].shape[1]
        with self._lock:
            reply_ids = self._generate(**inputs)[0, prompt_length:]
        reply_text = self.tokenizer.decode(reply_ids, skip_special_tokens=True)
        return Reply(reply_text, Usage(prompt_length, len(reply_ids)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """`complete` in a worker thread."""
        return await run_in_pool(self.complete, messages)

    def stream(self, messages: Sequence[Message]) -> Generator[str, None, None]:
        """Pieces of the reply as they are made; joined they are `complete`'s text.

        Generation runs in a thread; letting the iterator go stops it at the next token. What goes wrong there is
        raised here.
        """
        inputs = self._prompt_inputs(messages)
        streamer = TokenStreamer(self.tokenizer)
        is_abandoned = threading.Event()
        worker_errors: list[BaseException] = []

        def has_to_stop(ids: Any, scores: Any, **_: Any) -> Any:
            return ids.new_full((len(ids),), is_abandoned.is_set()).bool()

        def generate_in_thread() -> None:
            try:
                with self._lock:
                    if not is_abandoned.is_set():
                        self._generate(
                            **inputs, streamer=streamer, stopping_criteria=[has_to_stop]
                        )
            except BaseException as error:
                worker_errors.append(error)
            finally:
                streamer.end()

        thread = threading.Thread(
            target=generate_in_thread, name="denoise-generate", daemon=True
        )
        thread.start()
        try:
            yield from streamer
        finally:
            is_abandoned.set()
            thread.join()
        if worker_errors:
            raise worker_errors[0]

    def load(self) -> None:
        """Load a model given by name or folder; else done at the first call. Raises `InputError`."""
        with self._lock:
            if not isinstance(self.model, str | Path):
                return
            from denoise_core.local.gguf import resolve_model
            from denoise_core.local.loading import (
                check_model_folder,
                load_tokenizer,
                shared_model,
            )

            name = self.model
            try:
                check_model_folder(resolve_model(name))
                self.tokenizer = self.tokenizer or load_tokenizer(name)
                self.model = shared_model(name, has_lm_head=True)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"cannot load {str(name)!r} as a causal language model: {error}"
                ) from error

    def _generate(self, **inputs: Any) -> Any:
        """The model's own ``generate``; the global random state is left as it was when there is a seed."""
        torch = require("torch", extra="end")
        options = self._generation_options(inputs["input_ids"].shape[1])
        with torch.random.fork_rng(enabled=self.seed is not None):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            return self.model.generate(**inputs, **options)

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
        generation_options: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "do_sample": self.temperature > 0,
            "pad_token_id": int(padding_id),
        }
        if self.temperature > 0:
            generation_options["temperature"] = self.temperature
        return generation_options


def tokenize_messages(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Messages as token ids. A message that spells a special token stays text: only the template's count.

    Raises `InputError` when the chat template refuses the conversation or changes a message.
    """
    if not getattr(tokenizer, "chat_template", None):
        plain_ids = tokenizer("a", add_special_tokens=False)["input_ids"]
        start_ids = tokenizer("a")["input_ids"][: -len(plain_ids)]
        text = "\n\n".join(message.content for message in messages)
        (text_ids,) = tokenize_texts(tokenizer, [text], is_trusted=False)
        return [*start_ids, *text_ids]
    content_of_mark = {}
    chat_turns = []
    for message_index, message in enumerate(messages):
        mark = f"zzMESSAGE{message_index}zz"
        content_of_mark[mark] = message.content
        chat_turns.append({"role": message.role, "content": mark})
    try:
        text = tokenizer.apply_chat_template(
            chat_turns, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # jinja's own classes: a template refuses by raising
        if len(messages) > 1 and messages[0].role == "system":
            # A template that knows no system message.
            merged_text = f"{messages[0].content}\n\n{messages[1].content}"
            merged_message = Message("user", merged_text)
            return tokenize_messages(tokenizer, [merged_message, *messages[2:]])
        raise InputError(
            f"the tokenizer's chat template refuses the messages: {error}"
        ) from error
    pieces = re.split(r"(zzMESSAGE\d{1,9}zz)", text)
    shown_marks = [piece for piece in pieces if piece in content_of_mark]
    if shown_marks != list(content_of_mark):
        raise InputError(
            "the tokenizer's chat template does not show the messages as they are, each once"
        )
    token_ids: list[int] = []
    for piece in filter(None, pieces):
        (piece_ids,) = tokenize_texts(
            tokenizer,
            [content_of_mark.get(piece, piece)],
            is_trusted=piece not in content_of_mark,
        )
        token_ids += piece_ids
    return token_ids


_PARTIAL_CHARACTER = "\ufffd"  # what a decoder makes of the first bytes of a character


class TokenStreamer:
    """What ``generate`` takes as its ``streamer``; iterated, from another thread, the pieces until `end`.

    A piece is decoded together with the one before it, since the space before a word may depend on that.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens: list[int] = []
        # Where the last piece begins and ends, in tokens.
        self._previous_count = 0
        self._queued_count = 0
        self._is_prompt = True

    def put(self, value: Any) -> None:
        """The prompt, and then the tokens one by one."""
        if self._is_prompt:
            self._is_prompt = False
            return
        self._tokens += value.reshape(-1).tolist()
        self._queue_new_text(only_complete=True)

    def end(self) -> None:
        """Flush the last text; `generate` calls it after the last token."""
        self._queue_new_text(only_complete=False)
        self._queue.put(None)

    def _queue_new_text(self, *, only_complete: bool) -> None:
        old_text = self._decode_until(self._queued_count)
        new_text = self._decode_until(len(self._tokens))
        if only_complete and new_text.endswith(_PARTIAL_CHARACTER):
            return
        if len(new_text) > len(old_text):
            self._queue.put(new_text[len(old_text) :])
            self._previous_count = self._queued_count
            self._queued_count = len(self._tokens)

    def _decode_until(self, end_index: int) -> str:
        token_ids = self._tokens[self._previous_count : end_index]
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    def __iter__(self) -> Iterator[str]:
        while True:
            text_piece = self._queue.get()
            if text_piece is None:
                return
            yield text_piece
