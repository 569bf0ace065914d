"""What the paper compares: its baselines, its variants and ours, as functions of a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.s2a.answer import S2A, S2AAnswer
from denoise_core.s2a.options import Options
from denoise_lab.s2a.baselines import Baseline
from denoise_lab.s2a.cases import Case


class System(Protocol):
    """Answers a case; the seed is for models that sample."""

    def __call__(self, case: Case, seed: int) -> Flow[S2AAnswer]: ...


def paper_systems(
    llm_for: Callable[[int], LLM], options: Options | None = None
) -> dict[str, System]:
    """The paper's baselines and variants, and ours. ``llm_for(seed)`` is the model at that seed."""

    def baseline(kind: Any, clean: bool) -> System:
        def answer(case: Case, seed: int) -> Flow[S2AAnswer]:
            question = case.clean_question if clean else case.question
            passages = case.clean_passages if clean else case.passages
            return Baseline(llm_for(seed), kind=kind).flow(question, passages)

        return answer

    def s2a(variant: Any) -> System:
        def answer(case: Case, seed: int) -> Flow[S2AAnswer]:
            return S2A(llm_for(seed), variant=variant, options=options).flow(
                case.question, case.passages
            )

        return answer

    variants = (
        "default",
        "single",
        "keep_original",
        "not_instructed",
        "relevance",
        "select",
        "remove",
    )
    return {
        "plain": baseline("plain", clean=False),
        "instructed": baseline("instructed", clean=False),
        "stepwise": baseline("stepwise", clean=False),
        "oracle": baseline("plain", clean=True),
        **{f"s2a {v}": s2a(v) for v in variants},
    }
