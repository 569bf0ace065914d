"""Every call to a model in a file of JSON lines: a run that was killed goes on without making one twice.

A line is written to the disk before the reply is used. Only a call that was under way when the run was killed,
whose reply nobody has seen, is made again. What the file tells was spent counts for the budget.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from denoise_core.errors import BudgetExceeded, InputError
from denoise_core.protocols import LLM
from denoise_core.runtime.budget import Price
from denoise_core.runtime.caches import Cache
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.types import Message, Reply, Usage

PER_MESSAGE = 16  # tokens of a chat format around a message, at most


PLANNED = "1"  # what a dry run takes for a reply: methods go on from it, so that later calls are counted too


class ReplyLog:
    """An LLM that writes down every reply of ``llm``, and asks it nothing that stands in ``path``.

    ``model`` names the model: replies of another are not taken. ``budget`` is in money where there is a ``price``,
    else in tokens; no call is made that could pass it at its worst: every byte of the prompt a token, and
    ``longest`` tokens written. ``dry`` makes no call: `planned` counts them, and each is answered with `PLANNED`,
    so that what would be asked after it is counted as well. ``spent`` is money, or tokens without a price, of all
    calls in the file and in this run. Identical calls at the same time become one. Raises `InputError` for a file
    that is no ledger, and when the budget is below 0.
    """

    def __init__(
        self,
        llm: LLM,
        model: str,
        path: str | Path | None = None,
        *,
        budget: float | None = None,
        price: Price | None = None,
        max_tokens: int = 256,
        dry_run: bool = False,
    ) -> None:
        if budget is not None and not budget >= 0:
            raise InputError(f"budget={budget}: expected 0 or more")
        self.llm = llm
        self.path = None if path is None else Path(path)
        self.budget = budget
        self.price = price
        self.max_tokens = max_tokens
        self.dry = dry_run
        self.call_count = 0  # calls made by this object
        self.planned_usage = Usage(0, 0, is_estimated=True)
        self.planned_calls = 0
        self._keys = Cache(model)
        self._known = {} if self.path is None else _read(self.path)
        self._flying: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self.total_spent = sum(
            self._cost(r.usage) for r in self._known.values() if r.usage is not None
        )

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The reply, from the file or from the model. Raises `BudgetExceeded` for a call that could pass the
        budget, and what the model raises."""
        key = self._keys.key(messages)
        with self._lock:
            alone = self._flying.setdefault(key, threading.Lock())
        with alone:
            with self._lock:
                known = self._known.get(key)
            if known is not None:
                return known
            worst = self._worst(messages)
            if self.dry:
                return self._plan(key, messages)
            with self._lock:
                if self.budget is not None and self.total_spent + worst > self.budget:
                    what = "tokens" if self.price is None else "money"
                    raise BudgetExceeded(what, self.budget, self.total_spent)
                self.total_spent += worst  # set aside, until the reply says what it was
                self.call_count += 1
            try:
                reply = self.llm.complete(messages)
            except BaseException:
                with self._lock:
                    self.total_spent -= worst
                raise
            usage = reply.usage or Usage(
                _bytes(messages) // 4, len(reply.text) // 4, is_estimated=True
            )
            reply = Reply(reply.text, usage)
            with self._lock:
                self.total_spent += self._cost(usage) - worst
                self._known[key] = reply
                self._write(key, reply)
            return reply

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await run_in_pool(self.complete, messages)

    def _plan(self, key: str, messages: Sequence[Message]) -> Reply:
        with self._lock:
            self.planned_calls += 1
            self.planned_usage = Usage(
                self.planned_usage.input_tokens + _bytes(messages) // 4,
                self.planned_usage.output_tokens + self.max_tokens // 4,
                is_estimated=True,
            )
            self._known[key] = Reply(PLANNED, Usage(0, 0), calls=0)
            return self._known[key]

    def _worst(self, messages: Sequence[Message]) -> float:
        return self._cost(
            Usage(_bytes(messages) + PER_MESSAGE * (len(messages) + 1), self.max_tokens)
        )

    def _cost(self, usage: Usage) -> float:
        return float(usage.total) if self.price is None else self.price.cost_of(usage)

    def _write(self, key: str, reply: Reply) -> None:
        if self.path is None:
            return
        usage = None if reply.usage is None else asdict(reply.usage)
        line = json.dumps({"key": key, "text": reply.text, "usage": usage}) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(line.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())


def _bytes(messages: Sequence[Message]) -> int:
    return sum(len(m.content.encode("utf-8", "replace")) for m in messages)


def _read(path: Path) -> dict[str, Reply]:
    """The replies in the file. A last line that a kill cut off is taken away; any other is refused."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with open(path, "r+b") as file:
            file.truncate(whole)
    found: dict[str, Reply] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            record = json.loads(line)
            usage = None if record["usage"] is None else Usage(**record["usage"])
            found[str(record["key"])] = Reply(str(record["text"]), usage)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path}, line {number} is no recorded answer; name another folder"
            ) from error
    return found
