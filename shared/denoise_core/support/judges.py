"""Every judge of the field in one line: `model` by name, `function` for other packages' evaluators, `decision`."""

from __future__ import annotations

from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.recipes import Travels
from denoise_core.support.functions import FunctionJudge
from denoise_core.support.judging import Judge
from denoise_core.support.models import Family, ModelJudge
from denoise_core.support.quoting import LLMJudge
from denoise_core.text.delimit import envelope

__all__ = ["LLMJudge", "as_judge", "decision", "function", "model"]

GROUNDED = "Is every statement of the answer said by the evidence? Judge by the evidence alone."


def model(
    name: str,
    *,
    family: Family | None = None,
    label: str | None = None,
    threshold: float = 0.5,
    ask: bool | None = None,
    device: str = "cpu",
) -> ModelJudge:
    """A Hugging Face model as a judge; loaded at its first call, its repository's code never run.

    The config tells which ``family`` it is of, else give it: ``tokens`` (LettuceDetect: marks unsupported
    words), ``minicheck`` (RoBERTa, DeBERTa and T5), ``hhem``, ``guardian`` (Granite Guardian, Bespoke-MiniCheck:
    yes or no by its own template), ``entailment`` (NLI), ``cross_encoder`` (one logit). ``label`` is the output to
    read where the config's names do not say; ``ask`` puts the question before each claim. Raises `InputError` at
    the first call for a model of none of these.

    >>> model("KRLabsOrg/lettucedect-base-modernbert-en-v1").id
    'KRLabsOrg/lettucedect-base-modernbert-en-v1'
    """
    return ModelJudge(name, family=family, label=label, threshold=threshold, ask=ask, device=device)


def function(f: Any, *, name: str = "", threshold: float = 0.5, best: float = 1.0) -> FunctionJudge:
    """A function, or an evaluator of another package, as a judge; asked claim by claim.

    Parameters are filled by their names (question, query, input ...; evidence, contexts, source ...; claim,
    answer, response ...), others by place: question, evidence texts, claim. It may be asynchronous, and gives a
    number from 0 to ``best``, a bool, None for "cannot say", (score, reasons), a mapping or an object with
    ``score``.

    >>> from denoise_core.support.judging import Claim
    >>> judge = function(lambda question, evidence, claim: 0.9, name="mine")
    >>> [j.supported for j in judge.judge("When?", [Claim("In 1889.", 0, 8)], [])]
    [True]
    """
    return FunctionJudge(f, name=name, threshold=threshold, best=best)


def decision(decide: Any, *, threshold: float = 0.5, name: str = "decision") -> FunctionJudge:
    """The probability of yes to "is every statement said by the evidence?", from one forward pass a claim.

    ``decide`` is a model name for the ``decision`` pipeline of transformers, such a pipeline, or any callable
    that takes ``{"state": text, "questions": {name: {"type": "noul", "instructions": text}}}`` and returns
    ``{name: {"noul": probability}}``.
    """
    return FunctionJudge(_Decision(decide), name=name, threshold=threshold, limit=1)


class _Decision(Travels):
    """`decision`; a pipeline by name is loaded at the first call."""

    named = ("decide",)

    def __init__(self, decide: Any) -> None:
        self.decide = decide
        self._call: Any = None if isinstance(decide, str) else decide

    def __call__(self, question: str, evidence: list[str], claim: str) -> float:
        if self._call is None:
            self._call = require("transformers", extra="end").pipeline("decision", model=self.decide)
        shown = "\n".join(envelope(e, f"evidence {n}") for n, e in enumerate(evidence, 1))
        state = f"{shown}\n{envelope(question, 'question')}\n{envelope(claim, 'draft')}"
        asked = {"state": state, "questions": {"grounded": {"type": "noul", "instructions": GROUNDED}}}
        return float(self._call(asked)["grounded"]["noul"])


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
