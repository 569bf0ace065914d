"""Every judge of the field in one line: `model` by name, `function` for other packages' evaluators, `decision`."""

from __future__ import annotations

from typing import Any

from denoise_core.errors import InputError
from denoise_core.support.functions import FunctionJudge
from denoise_core.support.judging import Judge
from denoise_core.support.models import ModelJudge
from denoise_core.support.quoting import LLMJudge
from denoise_core.text.delimit import envelope

__all__ = ["LLMJudge", "as_judge", "decision", "function", "model"]

GROUNDED = "Is every statement of the answer said by the evidence? Judge by the evidence alone."


model = ModelJudge
function = FunctionJudge


def decision(decide: Any, *, threshold: float = 0.5, name: str = "decision") -> FunctionJudge:
    """The probability of yes to "is every statement said by the evidence?", from one forward pass a claim.

    ``decide`` is a model name for the ``decision`` pipeline of transformers, such a pipeline, or any callable
    that takes ``{"state": text, "questions": {name: {"type": "noul", "instructions": text}}}`` and returns
    ``{name: {"noul": probability}}``.
    """
    return FunctionJudge(_Decision(decide), name=name, threshold=threshold, limit=1)


class _Decision:
    """`decision`."""

    def __init__(self, decide: Any) -> None:
        from denoise_core.scorers.decisions import LocalDecisions  # not for every judge: it is slow to import

        self.decide = LocalDecisions(decide) if isinstance(decide, str) else decide

    def __call__(self, question: str, evidence: list[str], claim: str) -> float:
        shown = "\n".join(envelope(e, f"evidence {n}") for n, e in enumerate(evidence, 1))
        state = f"{shown}\n{envelope(question, 'question')}\n{envelope(claim, 'draft')}"
        asked = {"state": state, "questions": {"grounded": {"type": "noul", "instructions": GROUNDED}}}
        return float(self.decide(asked)["grounded"]["noul"])


def as_judge(value: Any, name: str = "judge") -> Judge:
    """Whatever judges, as a judge: a `Judge` as it is, an LLM by its quotes, a function claim by claim. Raises
    `InputError` for anything else, a model's name among them, and says what to write."""
    if isinstance(value, Judge) and not isinstance(value, type):
        return value
    if callable(getattr(value, "invoke", None)) or callable(getattr(value, "chat", None)):
        raise InputError(
            f"{name}: a framework's model judges as LLMJudge(ChatModelLLM(model)) of langchain_denoise, or "
            f"LLMJudge(LlamaLLM(model)) of llamaindex_denoise; got {type(value).__name__}"
        )
    if callable(getattr(value, "complete", None)) and not isinstance(value, type):
        return LLMJudge(value)
    return FunctionJudge(value)
