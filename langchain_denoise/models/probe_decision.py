"""`ProbeDecisionModel`: a scorer of the core, such as END's probe, as one of LangChain's decision models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from pydantic import field_validator

from denoise_core import InputError, MissingExtra, Scorer
from langchain_denoise.models.decisions import decisions

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableSerializable

    BaseDecisionModel = RunnableSerializable[Any, Any]
else:
    try:
        BaseDecisionModel = decisions().BaseDecisionModel
    except MissingExtra:

        class BaseDecisionModel:
            """Where langchain-core has none: tools can read the module, making a model says what to type."""

            def __init__(self, **settings: Any) -> None:
                decisions()


class ProbeDecisionModel(BaseDecisionModel):
    """Answers yes-or-no questions with the probability that a probe gives: one pass through its first layers.

    A probe reads how far a text helps with a question. The question is the state's ``question`` or ``query`` where
    it is a mapping that has one, else the instructions; the text is the rest of the state. The score is taken as
    log-odds, which it is for a probe (a logistic regression); ``scorer`` may be any other whose scores are.
    Raises `InputError` for questions of another kind than yes or no.
    """

    model: str = "end-probe"
    scorer: Any

    @field_validator("scorer")
    @classmethod
    def _is_a_scorer(cls, scorer: Any) -> Any:
        if not isinstance(scorer, Scorer) or isinstance(scorer, type):
            raise InputError(f"scorer: expected a denoise_core scorer, got {scorer!r:.80}")
        return scorer

    @property
    def _provider(self) -> str:
        return "denoise"

    def _classify(self, state: Any, questions: dict[str, Any]) -> Any:
        answers = {}
        for name, asked in questions.items():
            if asked.type != "noul":
                raise InputError(f"question {name!r}: a probe answers yes-or-no questions, not {asked.type!r}")
            query, text = _query_and_text(state, _text_of(asked.instructions))
            (score,) = self.scorer.score(query, [text])
            answers[name] = {"type": "noul", "noul": 1 / (1 + math.exp(-max(-60.0, min(60.0, float(score)))))}
        return decisions().ClassifierResponse.model_validate({"model": self.model, "answers": answers})


def _query_and_text(state: Any, instructions: str) -> tuple[str, str]:
    if isinstance(state, Mapping):
        for key in ("question", "query"):
            if isinstance(state.get(key), str):
                rest = {k: v for k, v in state.items() if k != key}
                return state[key], _text_of(rest)
    return instructions, _text_of(state)


def _text_of(state: Any) -> str:
    """The texts in a state, one under the other."""
    if isinstance(state, str):
        return state
    if isinstance(state, BaseMessage):
        return str(state.text)
    if isinstance(state, Mapping):
        return "\n".join(filter(None, map(_text_of, state.values())))
    if isinstance(state, Sequence):
        return "\n".join(filter(None, map(_text_of, state)))
    return "" if state is None else str(state)
