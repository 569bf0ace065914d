"""Which judge judges where none is given: the model at hand by its quotes, else code alone."""

from __future__ import annotations

from denoise_core.protocols import LLM
from denoise_core.support.hold import Words
from denoise_core.support.judging import Judge
from denoise_core.support.quoting import LLMJudge


def default_judge(llm: LLM | None = None) -> Judge:
    """``llm`` by its quotes, in one call. Without ``llm``, what code can tell: evidence and differences, never
    "supported"."""
    return Words() if llm is None else LLMJudge(llm)
