"""The systems that the S2A paper compares, its baselines and variants, and ours, as functions of a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow
from denoise_core.s2a import S2AResult
from denoise_core.s2a.answer import S2A, S2AAnswer, answer_from_passages
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_lab.s2a.cases import Case

S2ASystem = Callable[[Case], Flow[S2AAnswer]]

VARIANTS = (
    "default",
    "single",
    "keep_original",
    "not_instructed",
    "relevance",
    "select",
)


def paper_systems(llm: LLM, options: Options | None = None) -> dict[str, S2ASystem]:
    """Return the paper's baselines and the variants of S2A by name, all on one model.

    The baselines answer from everything in one call (sections 2.3 and 3.1.4): ``plain`` just
    asks, ``instructed`` adds that opinion and irrelevance are to be ignored, in the words of
    S2A's second step, ``stepwise`` asks for steps first (zero-shot chain of thought), and the
    ``oracle`` is asked without the distraction.
    """
    prompts = Prompts()
    systems = {
        "plain": baseline_system(llm, prompts.answer),
        "instructed": baseline_system(llm, prompts.answer_fairly),
        "stepwise": baseline_system(llm, prompts.answer_stepwise),
        "oracle": baseline_system(llm, prompts.answer, is_clean=True),
    }
    for variant in VARIANTS:
        systems[f"s2a {variant}"] = s2a_system(llm, variant, options)
    return systems


def baseline_system(llm: LLM, prompt: Prompt, *, is_clean: bool = False) -> S2ASystem:
    """Return a system that answers in one call.

    If ``is_clean`` it reads the question and the passages without distraction.
    """

    def answer_case(case: Case) -> Flow[S2AAnswer]:
        question, passages = case.question, case.passages
        if is_clean:
            question, passages = case.clean_question, case.clean_passages
        answer_text = yield from answer_from_passages(llm, prompt, question, passages)
        return S2AAnswer(answer_text, question, S2AResult(question, passages))

    return answer_case


def s2a_system(llm: LLM, variant: Any, options: Options | None) -> S2ASystem:
    """Return a variant of S2A as a system."""

    def answer_case(case: Case) -> Flow[S2AAnswer]:
        s2a = S2A(llm, variant=variant, options=options)
        return s2a.flow(case.question, case.passages)

    return answer_case
