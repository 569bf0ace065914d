"""Node-sized pieces for LangGraph graphs: each takes the state and gives an update of it. Needs no langgraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, model_validator
from typing_extensions import override

from denoise_core import InputError, arun, run
from denoise_core._secrets import PickledModel
from denoise_core.augmenter import Outcome, Verdict, WorkingMemory
from denoise_core.augmenter.drafting import Drafted
from denoise_core.running.effects import Flow
from denoise_core.s2a.options import OnError, Variant
from langchain_denoise.compressor import DenoiseCompressor
from langchain_denoise.convert import places
from langchain_denoise.convert.claims import claimed
from langchain_denoise.convert.history import Scope
from langchain_denoise.likes import LLMLike
from langchain_denoise.observe import atell, tell
from langchain_denoise.s2a import S2AMessages
from langchain_denoise.settings import DenoiseSettings
from langchain_denoise.verification.verifier import Verifier

Update = dict[str, Any]
_OUTCOMES = {"pass": Outcome.SUPPORTED, "fail": Outcome.UNSUPPORTED, "unknown": Outcome.UNKNOWN}


class _Node(PickledModel, RunnableSerializable[Any, Update]):
    """State in, update out."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return self._call_with_config(self._work, input, config)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return await self._acall_with_config(self._awork, input, config)

    def _work(self, state: Any, run_manager: ParentRunManager, config: RunnableConfig) -> Update:
        raise NotImplementedError

    async def _awork(self, state: Any, run_manager: AsyncParentRunManager, config: RunnableConfig) -> Update:
        raise NotImplementedError


class DenoiseNode(DenoiseSettings, _Node):
    """Denoises the documents under one key of the state for the question under another.

    The settings are those of `DenoiseCompressor`. ``question`` left out is found as in `verified`: under a usual
    key, or as the last human message. The state may be a dict, a pydantic object or a dataclass. Gives
    ``{documents: [...]}``; where the documents have a reducer, let it replace.
    """

    documents: str = "documents"
    question: str | None = None

    @override
    def _work(self, state: Any, run_manager: ParentRunManager, config: RunnableConfig) -> Update:
        return {self.documents: self._compressor().invoke(self._asked(state))}

    @override
    async def _awork(self, state: Any, run_manager: AsyncParentRunManager, config: RunnableConfig) -> Update:
        return {self.documents: await self._compressor().ainvoke(self._asked(state))}

    def _asked(self, state: Any) -> Any:
        found = places.under(state, self.documents, "documents")
        return {"documents": found, "query": places.question_in(state, self.question)}

    def _compressor(self) -> DenoiseCompressor:
        return DenoiseCompressor(**{name: getattr(self, name) for name in DenoiseSettings.model_fields})


class S2ANode(_Node):
    """Clears the user's words in ``state["messages"]``; gives only the messages that changed, with their ids.

    With the usual ``add_messages`` reducer they take the place of the originals, whose text stays in
    ``response_metadata["denoise"]["original"]``.
    """

    model: LLMLike
    variant: Variant = "select"
    scope: Scope = "latest"
    on_error: OnError = "keep"

    @model_validator(mode="after")
    def _can_clear(self) -> Self:
        self._clearing()  # wrong settings raise here
        return self

    @override
    def _work(self, state: Any, run_manager: ParentRunManager, config: RunnableConfig) -> Update:
        said = places.under(state, places.MESSAGES, "messages")
        return self._changed(said, self._clearing().invoke(said))

    @override
    async def _awork(self, state: Any, run_manager: AsyncParentRunManager, config: RunnableConfig) -> Update:
        said = places.under(state, places.MESSAGES, "messages")
        return self._changed(said, await self._clearing().ainvoke(said))

    def _clearing(self) -> S2AMessages:
        return S2AMessages(model=self.model, variant=self.variant, scope=self.scope, on_error=self.on_error)

    def _changed(self, before: Any, after: Any) -> Update:
        return {places.MESSAGES: [new for old, new in zip(before, after, strict=True) if new is not old]}


class JudgeNode(_Node):
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

    @override
    def _work(self, state: Any, run_manager: ParentRunManager, config: RunnableConfig) -> Update:
        verdict = run(self._judged(state), budget=self.verifier.budget)[0]
        tell(run_manager, {"verdict": self.verdict}, verdict, verdict)
        return {self.verdict: verdict}

    @override
    async def _awork(self, state: Any, run_manager: AsyncParentRunManager, config: RunnableConfig) -> Update:
        verdict = (await arun(self._judged(state), budget=self.verifier.budget))[0]
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
        return _judge(self.verifier, memory, candidate)


def _judge(verifier: Verifier, memory: WorkingMemory, candidate: str) -> Flow[dict[str, Any]]:
    verdict: Verdict = yield from verifier.utility.assess(memory, candidate)
    feedback = "" if verdict.passed else (yield from verifier.feedback.write(memory, candidate, verdict))
    return {
        "outcome": str(_OUTCOMES[verdict.outcome]),
        "score": float(verdict.score),
        "reasons": [r.text for r in verdict.reasons],
        "feedback": feedback,
    }
