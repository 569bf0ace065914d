"""LangChain's decision models for tests: those of langchain-core 1.8, or as much of their shape as ours need."""

import sys
from types import ModuleType
from typing import Any, Literal

from langchain_core.runnables import RunnableSerializable
from pydantic import BaseModel

try:
    from langchain_core import decisions

    REAL = True
except ImportError:
    REAL = False

    class Noul(BaseModel):
        type: Literal["noul"] = "noul"
        instructions: Any

    class NoulAnswer(BaseModel):
        type: Literal["noul"]
        noul: float

    class ClassifierResponse(BaseModel):
        model: str
        answers: dict[str, NoulAnswer]
        usage: dict[str, int] | None = None

        @property
        def nouls(self):
            return self.answers

    class BaseDecisionModel(RunnableSerializable[Any, Any]):
        model: str

        def invoke(self, input, config=None, **kwargs):
            def answer(request):
                return self._classify(request["state"], dict(request["questions"]))

            return self._call_with_config(answer, input, config, run_type="llm")

        async def ainvoke(self, input, config=None, **kwargs):
            async def answer(request):
                return self._classify(request["state"], dict(request["questions"]))

            return await self._acall_with_config(answer, input, config, run_type="llm")

    decisions = ModuleType("langchain_core.decisions")
    base = ModuleType("langchain_core.decisions.base")
    base.BaseDecisionModel = BaseDecisionModel
    for kind in (Noul, NoulAnswer, ClassifierResponse, BaseDecisionModel):
        setattr(decisions, kind.__name__, kind)


def in_place(monkeypatch):
    """Have ``langchain_core.decisions`` there for one test where the installed version has none."""
    if not REAL:
        monkeypatch.setitem(sys.modules, "langchain_core.decisions", decisions)
        monkeypatch.setitem(sys.modules, "langchain_core.decisions.base", base)


class Words(decisions.BaseDecisionModel):
    """Says yes with the probability that a function of the state gives."""

    model: str = "words"
    yes: Any

    @property
    def _provider(self):
        return "test"

    def _classify(self, state, questions):
        answers = {name: {"type": "noul", "noul": self.yes(state)} for name in questions}
        usage = {"input_tokens": 10, "output_tokens": 1}
        return decisions.ClassifierResponse.model_validate(
            {"model": self.model, "answers": answers, "usage": usage}
        )
