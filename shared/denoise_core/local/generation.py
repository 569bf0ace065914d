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
    had to say."""

    text: str
    usage: Usage
    is_truncated: bool


_SETTINGS = ("max_new_tokens", "temperature", "seed", "stop")


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
        self._set(max_new_tokens, temperature, seed, stop)

    def _set(
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
        other = copy.copy(self)
        other._set(**{name: getattr(self, name) for name in _SETTINGS} | changed)
        return other

    def complete(self, messages: Sequence[Message]) -> Reply:
        inputs = self._inputs(messages)
        before = inputs["input_ids"].shape[1]
        with self._lock:
            made = self._generate(**inputs)[0, before:]
        return Reply(self._text(made), Usage(before, len(made)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await run_in_pool(self.complete, messages)

    def stream(
        self, messages: Sequence[Message]
    ) -> Generator[str, None, GenerationEnd]:
        """Pieces of the reply as they are made; joined they are `complete`'s text. Returns how it `Ended`.

        Generation runs in a thread; letting the iterator go stops it at the next token. What goes wrong there is
        raised here.
        """
        inputs = self._inputs(messages)
        before = inputs["input_ids"].shape[1]
        streamer = TokenStreamer(self.tokenizer)
        left = threading.Event()
        failed: list[BaseException] = []
        made: list[int] = []

        def work() -> None:
            try:
                with self._lock:
                    if left.is_set():
                        return
                    leave = [
                        lambda ids, scores, **_: _flags([left.is_set()] * len(ids), ids)
                    ]
                    made.extend(
                        self._generate(**inputs, streamer=streamer, leave=leave)[
                            0, before:
                        ].tolist()
                    )
            except BaseException as error:
                failed.append(error)
            finally:
                streamer.end()

        thread = threading.Thread(target=work, name="denoise-generate", daemon=True)
        thread.start()
        try:
            yield from stream_until_stop(streamer, self.stop)
        finally:
            left.set()
            thread.join()
        if failed:
            raise failed[0]
        whole = self.tokenizer.decode(made, skip_special_tokens=True)
        text = truncate_at_stop(whole, self.stop)
        ended = (made[-1:] and made[-1] in self._ends()) or text != whole
        return GenerationEnd(
            text,
            Usage(before, len(made)),
            is_truncated=len(made) >= self._room(before) and not ended,
        )

    def load(self) -> None:
        """Load a model given by name or folder; else done at the first call. Raises `InputError`."""
        with self._lock:
            if not isinstance(self.model, str | Path):
                return
            from denoise_core.local.loading import load_tokenizer, shared_model

            name = self.model
            try:
                self.tokenizer = self.tokenizer or load_tokenizer(name)
                self.model = shared_model(name, has_lm_head=True)
            except (OSError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise InputError(
                    f"cannot load {str(name)!r} as a causal language model: {reason}"
                ) from error

    def _generate(self, leave: Sequence[Any] = (), **inputs: Any) -> Any:
        """The model's own ``generate``; the global random state is left as it was when there is a seed."""
        torch = require("torch", extra="end")
        criteria = [*leave, *self._stopping(inputs["input_ids"].shape[1])]
        if criteria:
            inputs["stopping_criteria"] = require(
                "transformers", extra="end"
            ).StoppingCriteriaList(criteria)
        with torch.random.fork_rng(enabled=self.seed is not None):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            return self.model.generate(
                **inputs, **self._settings(inputs["input_ids"].shape[1])
            )

    def _stopping(self, before: int) -> list[Any]:
        """A criterion that is met by the rows that hold a text of ``stop``; ``before`` tokens are the prompt."""
        if not self.stop:
            return []
        near = (
            max(len(s.encode("utf-8", "surrogatepass")) for s in self.stop) + 8
        )  # a token is a byte or more

        def found(ids: Any, scores: Any, **_: Any) -> Any:
            made = self.tokenizer.batch_decode(
                ids[:, before:][:, -near:], skip_special_tokens=True
            )
            return _flags(
                [truncate_at_stop(text, self.stop) != text for text in made], ids
            )

        return [found]

    def _text(self, made: Any) -> str:
        return truncate_at_stop(
            self.tokenizer.decode(made, skip_special_tokens=True), self.stop
        )

    def _ends(self) -> set[int]:
        ends = self.model.generation_config.eos_token_id
        return set(ends if isinstance(ends, list) else [ends])

    def _inputs(self, messages: Sequence[Message]) -> dict[str, Any]:
        self.load()
        return self._row(tokenize_messages(self.tokenizer, messages))

    def _row(self, ids: Sequence[int]) -> dict[str, Any]:
        torch, window = require("torch", extra="end"), self._window()
        if window is not None and len(ids) >= window:
            raise InputError(
                f"the prompt has {len(ids)} tokens and the model's window is {window}: keep fewer passages "
                "(ENDDenoiser(keep=...)) or take a model with a longer window"
            )
        row = torch.tensor([list(ids)], device=self.model.device)
        return {"input_ids": row, "attention_mask": torch.ones_like(row)}

    def _window(self) -> int | None:
        return getattr(
            self.model.config.get_text_config(), "max_position_embeddings", None
        )

    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _room(self, before: int) -> int:
        """How many tokens may follow a prompt of ``before``: past the window a model knows no positions."""
        window = self._window()
        return (
            self.max_new_tokens
            if window is None
            else min(self.max_new_tokens, window - before)
        )

    def _settings(self, before: int) -> dict[str, Any]:
        chosen: dict[str, Any] = {
            "max_new_tokens": self._room(before),
            "do_sample": self.temperature > 0,
        }
        if self.temperature > 0:
            chosen["temperature"] = self.temperature
        return chosen | {"pad_token_id": self._pad()}


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
                tokenizer, ["\n\n".join(m.content for m in messages)], is_trusted=False
            )[0],
        ]
    marks = [f"zzMESSAGE{n}zz" for n in range(len(messages))]
    turns = [
        {"role": m.role, "content": mark}
        for m, mark in zip(messages, marks, strict=True)
    ]
    try:
        text = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # jinja's own classes: a template refuses by raising
        if (
            len(messages) > 1 and messages[0].role == "system"
        ):  # templates that know no system message
            merged = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
            return tokenize_messages(tokenizer, [merged, *messages[2:]])
        raise InputError(
            f"the tokenizer's chat template refuses the messages: {error}"
        ) from error
    contents = dict(zip(marks, (m.content for m in messages), strict=True))
    pieces = re.split("(" + "|".join(marks) + ")", text)
    if [p for p in pieces if p in contents] != marks:
        raise InputError(
            "the tokenizer's chat template does not show the messages as they are, each once"
        )
    out: list[int] = []
    for piece in filter(None, pieces):
        out += tokenize_texts(
            tokenizer, [contents.get(piece, piece)], is_trusted=piece not in contents
        )[0]
    return out


def _flags(stop: list[bool], ids: Any) -> Any:
    """The decision for every row, as transformers wants it."""
    return require("torch", extra="end").tensor(
        stop, dtype=require("torch", extra="end").bool, device=ids.device
    )


_HALF = "\ufffd"  # what a decoder makes of the first bytes of a character


class TokenStreamer:
    """What ``generate`` takes as its ``streamer``; iterated, from another thread, the pieces until `end`.

    A piece is decoded together with the one before it, since the space before a word may depend on that.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens: list[int] = []
        self._before, self._told = (
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
        self._tell(whole=True)

    def end(self) -> None:
        self._tell(whole=False)
        self._queue.put(None)

    def _tell(self, *, whole: bool) -> None:
        old, now = self._decoded(self._told), self._decoded(len(self._tokens))
        if len(now) > len(old) and not (whole and now.endswith(_HALF)):
            self._queue.put(now[len(old) :])
            self._before, self._told = self._told, len(self._tokens)

    def _decoded(self, to: int) -> str:
        return str(
            self._tokenizer.decode(
                self._tokens[self._before : to], skip_special_tokens=True
            )
        )

    def __iter__(self) -> Iterator[str]:
        while (piece := self._queue.get()) is not None:
            yield piece


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before the first place where one of ``stops`` stands.

    >>> truncate_at_stop("one. two. three", [". t"])
    'one'
    """
    return text[
        : min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))
    ]


def stream_until_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces, none empty; joined they are ``truncate_at_stop("".join(pieces), stops)``.

    As many characters as may begin a stop are kept until more have come. All pieces are read.

    >>> list(stream_until_stop(["on", "e.", " two. three"], [". th"]))
    ['o', 'ne. two']
    """
    kept, over, longest = "", False, max((len(stop) for stop in stops), default=1)
    for piece in pieces:
        if over or not piece:
            continue
        kept += piece
        at, known = (
            len(truncate_at_stop(kept, stops)),
            max(0, len(kept) + 1 - longest),
        )  # no stop that begins before is half
        over = at < len(kept) and at <= known
        if out := kept[: min(at, known)]:
            yield out
        kept = "" if over else kept[len(out) :]
    if rest := truncate_at_stop(kept, stops):
        yield rest
