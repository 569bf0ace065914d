"""A judge for LangGraph graphs: it takes the state and gives an update of it. Needs no langgraph.

`DenoiseCompressor.as_node` and `S2AMessages.as_node` are the other steps of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict
from typing_extensions import override

from denoise_core import InputError, arun, run
from denoise_core.augmenter import Outcome, Verdict, WorkingMemory
from denoise_core.augmenter.drafting import Drafted
from denoise_core.running.effects import Flow
from langchain_denoise.convert import places
from langchain_denoise.convert.claims import claimed
from langchain_denoise.observe import atell, tell
from langchain_denoise.verification.verifier import Verifier

Update = dict[str, Any]
_OUTCOMES = {"pass": Outcome.SUPPORTED, "fail": Outcome.UNSUPPORTED, "unknown": Outcome.UNKNOWN}


class JudgeNode(RunnableSerializable[Any, Update]):
    """Judges the answer in the state against the evidence in it; for a conditional edge to act on.

    Gives ``{verdict: {"outcome": "supported" | "unsupported" | "unknown", "score", "reasons", "feedback"}}``,
    plain JSON, in the words of `denoise_core.augmenter.Outcome`; the span ``denoise_record`` shows it too. Where
    question, answer and evidence stand is told, or found, as in `verified`. Bounding the loop is the graph's:
    count the tries in its state.
    """

    verifier: Verifier
    verdict: str = "verdict"
    question: str | Callable[..., Any] | None = None
    answer: str | Callable[..., Any] | None = None
    evidence: str | Callable[..., Any] | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return self._call_with_config(self._judge, input, config)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return await self._acall_with_config(self._ajudge, input, config)

    def _judge(self, state: Any, run_manager: ParentRunManager, config: RunnableConfig) -> Update:
        verdict = run(self._judged(state), budget=self.verifier.loop.budget)[0]
        tell(run_manager, {"verdict": self.verdict}, verdict, verdict)
        return {self.verdict: verdict}

    async def _ajudge(self, state: Any, run_manager: AsyncParentRunManager, config: RunnableConfig) -> Update:
        verdict = (await arun(self._judged(state), budget=self.verifier.loop.budget))[0]
        await atell(run_manager, {"verdict": self.verdict}, verdict, verdict)
        return {self.verdict: verdict}

    def _judged(self, given: Any) -> Flow[dict[str, Any]]:
        state = places.as_state(given)
        if not isinstance(state, Mapping):
            raise InputError(
                f"expected the state as a dict, a pydantic object or a dataclass, got {type(state).__name__}"
            )
        said = claimed(given if callable(self.answer) else state, self.answer)
        candidate = Drafted(said.text, fields=said.fields).text
        by_user = given if callable(self.evidence) else state
        evidence = places.evidence_in(by_user, by_user, self.evidence)
        memory = WorkingMemory(places.question_in(given, self.question), evidence)
        verdict: Verdict = yield from self.verifier.loop.utility.assess(memory, candidate)
        feedback = (
            "" if verdict.passed else (yield from self.verifier.loop.feedback.write(memory, candidate, verdict))
        )
        return {
            "outcome": str(_OUTCOMES[verdict.outcome]),
            "score": float(verdict.score),
            "reasons": [r.text for r in verdict.reasons],
            "feedback": feedback,
        }
