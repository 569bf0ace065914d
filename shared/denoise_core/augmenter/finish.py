"""From the memory at the end of a run to the answer that is sent."""

from __future__ import annotations

from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.engine import citations
from denoise_core.augmenter.limits import LoopLimits
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.prompts import Task
from denoise_core.support.abstention import abstains

REFUSAL = "No answer can be given."


def finish(memory: WorkingMemory, stop: StopReason, limits: LoopLimits, task: Task) -> Answer:
    """The best attempt under the outcome it earns. An attempt with text that was judged comes before an
    abstention of the model; where there is neither, the answer is the task's "unknown" or a refusal."""
    best = memory.best
    if best is not None and best.verdict.passed:
        cited = citations(best.candidate, best.evidence)
        return Answer(best.candidate, Outcome.VERIFIED, StopReason.PASSED, memory, citations=cited)
    if stop is StopReason.ABSTAINED:
        why = stop if memory.evidence or memory.attempts else StopReason.NO_EVIDENCE
        return Answer(task.unknown, Outcome.ABSTAINED, why, memory)
    if best is None or not best.candidate:
        return Answer(REFUSAL, Outcome.REFUSED, stop, memory)
    if _abstention(best):
        return Answer(best.candidate, Outcome.ABSTAINED, StopReason.ABSTAINED, memory)
    if limits.unverified == "send":
        cited = citations(best.candidate, best.evidence)
        return Answer(best.candidate, Outcome.UNVERIFIED, stop, memory, citations=cited)
    if limits.unverified == "abstain":
        return Answer(task.unknown, Outcome.ABSTAINED, stop, memory)
    return Answer(REFUSAL, Outcome.REFUSED, stop, memory)


def _abstention(attempt: Attempt) -> bool:
    return any(r.kind == "abstention" for r in attempt.verdict.reasons) or abstains(attempt.candidate)
