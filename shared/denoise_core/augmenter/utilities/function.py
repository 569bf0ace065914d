"""Any function as a utility: a rule, an NLI model, a cross-encoder, another framework's evaluator.

The function runs as an effect, so that the budget counts it, the trace holds it, a replay can repeat it, its
time is limited, and async code does not wait for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from denoise_core.augmenter.memory import Reason, Verdict, WorkingMemory
from denoise_core.errors import InputError, UnparsableReply
from denoise_core.running.effects import Flow, complete
from denoise_core.running.offload import offload
from denoise_core.types import Message, Reply, Usage

Score: TypeAlias = Callable[[str, Sequence[str], str], float | None]
"""``score(question, evidence texts, candidate)``: from 0 to 1, or None for "cannot say"."""


class FunctionUtility:
    """Passes when ``score`` gives ``threshold`` or more; None, NaN and an empty evidence are unknown.

    ``name`` is the tag in the trace, ``saying`` what the feedback says when the candidate falls short.
    Raises `InputError` for a threshold outside [0, 1].
    """

    def __init__(
        self,
        score: Score,
        *,
        threshold: float = 0.5,
        name: str = "judge",
        saying: str = "the evidence does not support the answer well enough",
    ) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InputError(f"threshold={threshold}: expected 0 to 1")
        self.threshold = threshold
        self.name = name
        self.saying = saying
        self._server = _ScoreServer(score)

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        """Raises `InputError` when the function returns no number from 0 to 1."""
        if not memory.evidence:
            return Verdict("unknown", 0.0, (Reason("there is no evidence to hold it against", "empty_evidence"),))
        asked = {
            "question": memory.question,
            "evidence": [p.text for p in memory.evidence],
            "candidate": candidate,
        }
        message = Message("user", json.dumps(asked, ensure_ascii=False))
        reply = yield from complete((message,), tag=self.name, llm=self._server)
        score = _number(reply.text)
        if score is None:
            return Verdict("unknown", 0.0, (Reason(f"{self.name} could not say", "judge_unsure"),))
        if score >= self.threshold:
            return Verdict("pass", score)
        return Verdict("fail", score, (Reason(self.saying, self.name, candidate),))


def _number(reply: str) -> float | None:
    """The score in a reply. NaN cannot be compared: ``nan >= t`` would be a fail that nobody decided."""
    try:
        value = json.loads(reply)
    except json.JSONDecodeError as error:
        raise UnparsableReply(f"expected a number or null from the judge, got {reply[:80]!r}") from error
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise InputError(f"the judge returned {value!r}; expected a number from 0 to 1, or None")
    return float(value)


class _ScoreServer:
    """The function in the place of an LLM: one message of JSON in, a number out. It uses no tokens."""

    def __init__(self, score: Score) -> None:
        self.score = score

    def complete(self, messages: Sequence[Message]) -> Reply:
        asked = json.loads(messages[-1].content)
        value = self.score(asked["question"], asked["evidence"], asked["candidate"])
        # bool() and float() take numpy scalars along; a bool is a clear 0 or 1.
        return Reply(json.dumps(None if value is None else float(value)), Usage(0, 0))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await offload(self.complete, messages)
