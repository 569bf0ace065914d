"""Every reply of a model in a file of JSON lines, so that a killed run resumes for free.

A line is on the disk before its reply is used. Only a call under way at the kill, whose
reply nobody has seen, is made again. What the file says was spent counts for the budget.
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from denoise_core.errors import BudgetExceeded, InputError, ServerUnreachable
from denoise_core.jsonable import from_jsonable, to_jsonable
from denoise_core.protocols import LLM
from denoise_core.runtime.caches import Cache
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.token_budget import estimate_usage
from denoise_core.types import Message, Reply, Usage

MESSAGE_OVERHEAD = 16  # tokens of a chat format around a message, at most

# What a dry run takes for a reply: methods go on from it, so that it counts later calls too.
PLANNED_REPLY = "1"


class ReplyLog:
    """An LLM that records every reply, and answers recorded prompts without a call.

    Identical calls at the same time become one. A server that could not be reached before
    its first reply is not asked again.

    Args:
        llm: The model that answers.
        model: Its name; replies of another model are not used.
        path: The file; without it replies are only kept in memory.
        budget: The most tokens that may be spent. A call is refused if it could exceed the
            budget at its worst: every byte of the prompt a token, and ``max_tokens`` of
            reply.
        max_tokens: The longest reply.
        dry_run: Make no call. `planned_calls` and `planned_usage` count what would be asked,
            and each call is answered with `PLANNED_REPLY`.

    Attributes:
        call_count: Calls made by this object.
        total_spent: Tokens of all calls in the file and here.

    Raises:
        InputError: The file is no reply log, or the budget is below 0.
    """

    def __init__(
        self,
        llm: LLM,
        model: str,
        path: str | Path | None = None,
        *,
        budget: int | None = None,
        max_tokens: int = 256,
        dry_run: bool = False,
    ) -> None:
        if budget is not None and not budget >= 0:
            raise InputError(f"budget={budget}: expected 0 or more")
        self.llm = llm
        self.path = None if path is None else Path(path)
        self.budget = budget
        self.max_tokens = max_tokens
        self.dry_run = dry_run
        self.call_count = 0
        self.planned_usage = Usage(0, 0, is_estimated=True)
        self.planned_calls = 0
        self._prompt_keys = Cache(model)
        self._replies = {} if self.path is None else _read_replies(self.path)
        self._key_locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._unreachable: ServerUnreachable | None = None
        self._was_reached = False
        recorded_usages = [model_reply.usage for model_reply in self._replies.values()]
        self.total_spent = sum(usage.total for usage in recorded_usages if usage)

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the reply from the log or from the model.

        Raises:
            BudgetExceeded: The call could exceed the budget.
            ServerUnreachable: The model's server cannot be reached.
        """
        prompt_key = self._prompt_keys.key(messages)
        with self._lock:
            prompt_lock = self._key_locks[prompt_key]
        with prompt_lock:
            with self._lock:
                logged_reply = self._replies.get(prompt_key)
            if logged_reply is not None:
                return logged_reply
            if self.dry_run:
                return self._plan(prompt_key, messages)
            return self._call(prompt_key, messages)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Return the reply from the log, or from the model in a thread."""
        return await run_in_pool(self.complete, messages)

    def _plan(self, prompt_key: str, messages: Sequence[Message]) -> Reply:
        model_reply = Reply(PLANNED_REPLY, Usage(0, 0), calls=0)
        with self._lock:
            self.planned_calls += 1
            self.planned_usage = Usage(
                self.planned_usage.input_tokens + estimate_usage(messages).input_tokens,
                self.planned_usage.output_tokens + self.max_tokens // 4,
                is_estimated=True,
            )
            self._replies[prompt_key] = model_reply
        return model_reply

    def _call(self, prompt_key: str, messages: Sequence[Message]) -> Reply:
        format_overhead = MESSAGE_OVERHEAD * (len(messages) + 1)
        worst_cost = _count_bytes(messages) + format_overhead + self.max_tokens
        with self._lock:
            if self._unreachable is not None:
                raise ServerUnreachable(str(self._unreachable))
            if self.budget is not None and self.total_spent + worst_cost > self.budget:
                raise BudgetExceeded("tokens", self.budget, self.total_spent)
            # Reserved until the reply tells the cost, so that parallel calls keep to it.
            self.total_spent += worst_cost
            self.call_count += 1
        try:
            model_reply = self.llm.complete(messages)
        except BaseException as error:
            with self._lock:
                self.total_spent -= worst_cost
                if isinstance(error, ServerUnreachable) and not self._was_reached:
                    self._unreachable = error
            raise
        call_usage = model_reply.usage
        if call_usage is None:
            call_usage = estimate_usage(messages, model_reply.text)
        model_reply = Reply(model_reply.text, call_usage)
        with self._lock:
            self._was_reached = True
            self.total_spent += call_usage.total - worst_cost
            self._replies[prompt_key] = model_reply
            self._append(prompt_key, model_reply)
        return model_reply

    def _append(self, prompt_key: str, model_reply: Reply) -> None:
        if self.path is None:
            return
        json_record = {
            "key": prompt_key,
            "text": model_reply.text,
            "usage": to_jsonable(model_reply.usage),
        }
        json_line = json.dumps(json_record) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as log_file:
            log_file.write(json_line.encode("utf-8"))
            log_file.flush()
            os.fsync(log_file.fileno())


def _count_bytes(messages: Sequence[Message]) -> int:
    return sum(len(m.content.encode("utf-8", "replace")) for m in messages)


def _read_replies(path: Path) -> dict[str, Reply]:
    """Read the replies in the file, and remove a last line that a kill cut off."""
    try:
        log_bytes = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    complete_size = log_bytes.rfind(b"\n") + 1
    if complete_size < len(log_bytes):
        with open(path, "r+b") as log_file:
            log_file.truncate(complete_size)
    reply_by_key = {}
    for line_number, json_line in enumerate(log_bytes[:complete_size].splitlines(), 1):
        try:
            json_record = json.loads(json_line)
            call_usage = from_jsonable(Usage | None, json_record["usage"])
            reply_by_key[str(json_record["key"])] = Reply(
                str(json_record["text"]), call_usage
            )
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path}, line {line_number} is no recorded answer; name another folder"
            ) from error
    return reply_by_key
