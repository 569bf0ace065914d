"""A local Hugging Face model as an `LLM`: nothing leaves the machine, and the object END reads can answer."""

from __future__ import annotations

import copy
import queue
import re
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.local.layout import tokenize_texts
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Message, Reply, Usage


@dataclass(frozen=True, slots=True)
class GenerationEnd:
    """How a stream ended, and its whole ``text``. ``cut``: by the limit of tokens, in the middle of what the model
    had to say.
    """

    text: str
    usage: Usage
    is_truncated: bool


_SETTING_NAMES = ("max_new_tokens", "temperature", "seed", "stop")


class LocalLLM:
    """Generates with ``model``: a causal language model object and its tokenizer, or a name or folder.

    A name or folder is loaded at the first call, once in a process, without running code that comes with it.
    Messages go through the tokenizer's chat template, or without one are put one under the other.
    Decoding is greedy unless ``temperature`` is above 0. Calls from several threads take turns: one
    generation fills the device. ``seed`` makes sampling repeatable. A reply ends before the first of the texts
    in ``stop``, and where the model's window ends.

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
        stop: Sequence[str] = (),
    ) -> None:
        if tokenizer is None and not isinstance(model, str | Path):
            raise InputError(
                "a loaded model needs its tokenizer: LocalLLM(model, tokenizer)"
            )
        self.model: Any = model
        self.tokenizer: Any = tokenizer
        self._lock = threading.Lock()
        self._apply_settings(max_new_tokens, temperature, seed, stop)

    def _apply_settings(
        self,
        max_new_tokens: int,
        temperature: float,
        seed: int | None,
        stop: Sequence[str],
    ) -> None:
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
        if not 0 <= temperature < float("inf"):
            raise InputError(f"temperature={temperature}: expected 0 (greedy) or more")
        if isinstance(stop, str) or not all(stop):
            raise InputError(
                f"stop={stop!r}: expected texts of one character or more, in a list"
            )
        self.max_new_tokens = max_new_tokens
        self.temperature = float(temperature)  # transformers takes no int
        self.seed = seed
        self.stop = tuple(stop)

    def with_settings(self, **changed: Any) -> LocalLLM:
        """The same weights under other settings of the constructor's, in memory once and taking turns.

        Loads the model. Raises what the constructor and loading raise.
        """
        self.load()
        other_llm = copy.copy(self)
        other_llm._apply_settings(
            **{name: getattr(self, name) for name in _SETTING_NAMES} | changed
        )
        return other_llm

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The whole reply, up to a stop text or ``max_new_tokens``."""
        inputs = self._prompt_inputs(messages)
        prompt_length = inputs["input_ids"].shape[1]
        with self._lock:
            reply_ids = self._generate(**inputs)[0, prompt_length:]
        return Reply(
            self._decode_reply(reply_ids), Usage(prompt_length, len(reply_ids))
        )

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """`complete` in a worker thread."""
        return await run_in_pool(self.complete, messages)

    def stream(
        self, messages: Sequence[Message]
    ) -> Generator[str, None, GenerationEnd]:
        """Pieces of the reply as they are made; joined they are `complete`'s text. Returns how it `Ended`.

        Generation runs in a thread; letting the iterator go stops it at the next token. What goes wrong there is
        raised here.
        """
        inputs = self._prompt_inputs(messages)
        prompt_length = inputs["input_ids"].shape[1]
        streamer = TokenStreamer(self.tokenizer)
        is_abandoned = threading.Event()
        worker_errors: list[BaseException] = []
        reply_ids: list[int] = []

        def generate_in_thread() -> None:
            try:
                with self._lock:
                    if is_abandoned.is_set():
                        return
                    leave_criteria = [
                        lambda ids, scores, **_: _stop_flags(
                            [is_abandoned.is_set()] * len(ids), ids
                        )
                    ]
                    reply_ids.extend(
                        self._generate(
                            **inputs, streamer=streamer, leave_criteria=leave_criteria
                        )[0, prompt_length:].tolist()
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
            yield from stream_until_stop(streamer, self.stop)
        finally:
            is_abandoned.set()
            thread.join()
        if worker_errors:
            raise worker_errors[0]
        full_text = self.tokenizer.decode(reply_ids, skip_special_tokens=True)
        text = truncate_at_stop(full_text, self.stop)
        has_ended = (
            reply_ids[-1:] and reply_ids[-1] in self._end_tokens()
        ) or text != full_text
        return GenerationEnd(
            text,
            Usage(prompt_length, len(reply_ids)),
            is_truncated=len(reply_ids) >= self._token_budget(prompt_length)
            and not has_ended,
        )

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

    def _generate(self, leave_criteria: Sequence[Any] = (), **inputs: Any) -> Any:
        """The model's own ``generate``; the global random state is left as it was when there is a seed."""
        torch = require("torch", extra="end")
        criteria = [
            *leave_criteria,
            *self._stopping_criteria(inputs["input_ids"].shape[1]),
        ]
        if criteria:
            inputs["stopping_criteria"] = require(
                "transformers", extra="end"
            ).StoppingCriteriaList(criteria)
        with torch.random.fork_rng(enabled=self.seed is not None):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            return self.model.generate(
                **inputs, **self._generation_options(inputs["input_ids"].shape[1])
            )

    def _stopping_criteria(self, prompt_length: int) -> list[Any]:
        """A criterion that is met by the rows that hold a text of ``stop``; ``prompt_length`` tokens are the
        prompt.
        """
        if not self.stop:
            return []
        max_tail_tokens = (
            max(
                len(stop_text.encode("utf-8", "surrogatepass"))
                for stop_text in self.stop
            )
            + 8
        )  # a token is a byte or more

        def contains_stop(ids: Any, scores: Any, **_: Any) -> Any:
            reply_ids = self.tokenizer.batch_decode(
                ids[:, prompt_length:][:, -max_tail_tokens:], skip_special_tokens=True
            )
            return _stop_flags(
                [truncate_at_stop(text, self.stop) != text for text in reply_ids], ids
            )

        return [contains_stop]

    def _decode_reply(self, reply_ids: Any) -> str:
        return truncate_at_stop(
            self.tokenizer.decode(reply_ids, skip_special_tokens=True), self.stop
        )

    def _end_tokens(self) -> set[int]:
        end_ids = self.model.generation_config.eos_token_id
        if isinstance(end_ids, list):
            return set(end_ids)
        return {end_ids}

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

    def _padding_token(self) -> int:
        padding_id = self.tokenizer.pad_token_id
        if padding_id is None:
            padding_id = self.tokenizer.eos_token_id
        return int(padding_id)

    def _token_budget(self, prompt_length: int) -> int:
        """How many tokens may follow a prompt of ``prompt_length``: past the window a model knows no positions."""
        max_positions = self._max_positions()
        return (
            self.max_new_tokens
            if max_positions is None
            else min(self.max_new_tokens, max_positions - prompt_length)
        )

    def _generation_options(self, prompt_length: int) -> dict[str, Any]:
        generation_options: dict[str, Any] = {
            "max_new_tokens": self._token_budget(prompt_length),
            "do_sample": self.temperature > 0,
        }
        if self.temperature > 0:
            generation_options["temperature"] = self.temperature
        return generation_options | {"pad_token_id": self._padding_token()}


def tokenize_messages(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Messages as token ids. A message that spells a special token stays text: only the template's count.

    Raises `InputError` when the chat template refuses the conversation or changes a message.
    """
    if not getattr(tokenizer, "chat_template", None):
        start = tokenizer("a")["input_ids"][
            : -len(tokenizer("a", add_special_tokens=False)["input_ids"])
        ]
        return [
            *start,
            *tokenize_texts(
                tokenizer,
                ["\n\n".join(message.content for message in messages)],
                is_trusted=False,
            )[0],
        ]
    message_marks = [
        f"zzMESSAGE{message_index}zz" for message_index in range(len(messages))
    ]
    chat_turns = [
        {"role": message.role, "content": message_mark}
        for message, message_mark in zip(messages, message_marks, strict=True)
    ]
    try:
        text = tokenizer.apply_chat_template(
            chat_turns, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # jinja's own classes: a template refuses by raising
        if (
            len(messages) > 1 and messages[0].role == "system"
        ):  # templates that know no system message
            merged_message = Message(
                "user", f"{messages[0].content}\n\n{messages[1].content}"
            )
            return tokenize_messages(tokenizer, [merged_message, *messages[2:]])
        raise InputError(
            f"the tokenizer's chat template refuses the messages: {error}"
        ) from error
    mark_contents = dict(
        zip(message_marks, (message.content for message in messages), strict=True)
    )
    mark_pattern = "|".join(message_marks)
    pieces = re.split("(" + mark_pattern + ")", text)
    shown_marks = [piece for piece in pieces if piece in mark_contents]
    if shown_marks != message_marks:
        raise InputError(
            "the tokenizer's chat template does not show the messages as they are, each once"
        )
    token_list: list[int] = []
    for text_piece in filter(None, pieces):
        token_list += tokenize_texts(
            tokenizer,
            [mark_contents.get(text_piece, text_piece)],
            is_trusted=text_piece not in mark_contents,
        )[0]
    return token_list


def _stop_flags(stop: list[bool], ids: Any) -> Any:
    """The decision for every row, as transformers wants it."""
    return require("torch", extra="end").tensor(
        stop, dtype=require("torch", extra="end").bool, device=ids.device
    )


_PARTIAL_CHARACTER = "\ufffd"  # what a decoder makes of the first bytes of a character


class TokenStreamer:
    """What ``generate`` takes as its ``streamer``; iterated, from another thread, the pieces until `end`.

    A piece is decoded together with the one before it, since the space before a word may depend on that.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens: list[int] = []
        self._previous_count, self._queued_count = (
            0,
            0,
        )  # where the last piece begins and ends, in tokens
        self._prompt = True

    def put(self, value: Any) -> None:
        """The prompt, and then the tokens one by one."""
        if self._prompt:
            self._prompt = False
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
        if len(new_text) > len(old_text) and not (
            only_complete and new_text.endswith(_PARTIAL_CHARACTER)
        ):
            self._queue.put(new_text[len(old_text) :])
            self._previous_count, self._queued_count = (
                self._queued_count,
                len(self._tokens),
            )

    def _decode_until(self, end_index: int) -> str:
        return str(
            self._tokenizer.decode(
                self._tokens[self._previous_count : end_index], skip_special_tokens=True
            )
        )

    def __iter__(self) -> Iterator[str]:
        while (text_piece := self._queue.get()) is not None:
            yield text_piece


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before the first occurrence of any of ``stops``.

    >>> truncate_at_stop("one. two. three", [". t"])
    'one'
    """
    return text[
        : min(
            (stop_offset for stop in stops if (stop_offset := text.find(stop)) >= 0),
            default=len(text),
        )
    ]


def stream_until_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces, none empty; joined they are ``truncate_at_stop("".join(pieces), stops)``.

    As many characters as may begin a stop are kept until more have come. All pieces are read.

    >>> list(stream_until_stop(["on", "e.", " two. three"], [". th"]))
    ['o', 'ne. two']
    """
    pending_text = ""
    is_stopped = False
    longest_stop = max((len(stop) for stop in stops), default=1)
    for text_piece in pieces:
        if is_stopped or not text_piece:
            continue
        pending_text += text_piece
        stop_offset, safe_length = (
            len(truncate_at_stop(pending_text, stops)),
            max(0, len(pending_text) + 1 - longest_stop),
        )  # no stop that begins before is half
        is_stopped = stop_offset < len(pending_text) and stop_offset <= safe_length
        shown_length = min(stop_offset, safe_length)
        if token_list := pending_text[:shown_length]:
            yield token_list
        pending_text = pending_text[len(token_list) :]
        if is_stopped:
            pending_text = ""
    if last_text := truncate_at_stop(pending_text, stops):
        yield last_text
