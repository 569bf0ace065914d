"""What each action does: a flow from memory to memory. What fails is noted in the memory, not raised."""

from __future__ import annotations

import re
from dataclasses import replace

from denoise_core.augmenter.answer import StopReason
from denoise_core.augmenter.engine import draft_prompt, self_ask_prompt
from denoise_core.augmenter.feedback import Feedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.memory import Attempt, Reason, Verdict, WorkingMemory
from denoise_core.augmenter.prompts import Task
from denoise_core.augmenter.utility import Utility
from denoise_core.errors import BudgetExceeded, NotRecorded
from denoise_core.running.effects import Flow, complete

REASONS = {
    "search": StopReason.RETRIEVER_ERROR,
    "denoise": StopReason.RETRIEVER_ERROR,
    "judge": StopReason.JUDGE_ERROR,
    "feedback": StopReason.JUDGE_ERROR,
    "draft": StopReason.LLM_ERROR,
    "self_ask": StopReason.LLM_ERROR,
}
ENDING = (BudgetExceeded, NotRecorded)


class Spent(Exception):
    """Nothing more can be asked for; carries the memory as it stands, with what was already paid for."""

    def __init__(self, memory: WorkingMemory, error: Exception) -> None:
        super().__init__(str(error))
        self.memory = memory
        self.error = error


def search(memory: WorkingMemory, consolidator: Consolidator, *, wide: bool) -> Flow[WorkingMemory]:
    """The memory with what was found beside what it had."""
    try:
        found = yield from consolidator.gather(memory, wide=wide)
    except ENDING as error:
        raise Spent(memory, error) from error
    except Exception as error:
        return memory.failed("search", error)
    for what, failure in found.failures:
        memory = memory.failed(what, failure)
    return replace(
        memory,
        retrieved=memory.retrieved + found.retrieved,
        evidence=memory.evidence + found.evidence,
        dropped=memory.dropped + found.dropped,
        queries=memory.queries + found.queries,
    )


def self_ask(memory: WorkingMemory) -> Flow[WorkingMemory]:
    """Ask whether knowledge is needed; anything but a clear "yes, I can answer" means that it is."""
    try:
        reply = yield from complete(self_ask_prompt(memory), tag="self_ask")
        knows = re.fullmatch(r"\W*yes\W*", reply.text, re.IGNORECASE) is not None
    except ENDING as error:
        raise Spent(memory, error) from error
    except Exception as error:
        return replace(memory.failed("self_ask", error), needs_knowledge=True)
    return replace(memory, needs_knowledge=not knows)


def draft(memory: WorkingMemory, task: Task, utility: Utility, feedback: Feedback) -> Flow[WorkingMemory]:
    """The memory with one more attempt: a candidate, its verdict, feedback if it did not pass."""
    try:
        reply = yield from complete(draft_prompt(memory, task), tag="draft")
        candidate = reply.text.strip()
    except ENDING as error:
        raise Spent(memory, error) from error
    except Exception as error:
        return memory.failed("draft", error)
    attempt = Attempt(candidate, _unjudged("the budget was spent before it could be judged"), "", memory.evidence)
    try:
        verdict = yield from utility.assess(memory, candidate)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"Utility.assess must return a Verdict, got {type(verdict).__name__}")
    except ENDING as error:
        raise Spent(memory.attempted(attempt), error) from error
    except Exception as error:
        memory = memory.failed("judge", error)
        verdict = _unjudged(f"the judge failed: {type(error).__name__}: {error}")
    attempt = replace(attempt, verdict=verdict)
    if verdict.passed:
        return memory.attempted(attempt)
    try:
        words = yield from feedback.write(memory, candidate, verdict)
    except ENDING as error:
        raise Spent(memory.attempted(attempt), error) from error
    except Exception as error:
        return memory.failed("feedback", error).attempted(attempt)
    return memory.attempted(replace(attempt, feedback=words))


def _unjudged(why: str) -> Verdict:
    return Verdict("unknown", 0.0, (Reason(why, "judge_error"),))
