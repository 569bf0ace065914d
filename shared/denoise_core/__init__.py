"""Takes the noise out of what a language model reads, and checks what it writes.

The vocabulary of all three methods, and the names met first. The methods themselves are `denoise_core.end` (Early
Noise Dropping), `denoise_core.s2a` (System 2 Attention) and `denoise_core.augmenter` (LLM-Augmenter); their
entries here load at their first use, so that importing this stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from denoise_core.errors import (
    BudgetExceeded,
    DenoiseError,
    EmptyResult,
    InputError,
    MissingExtra,
    ProbeMismatch,
    UnparsableReply,
)
from denoise_core.protocols import LLM, Denoiser, Retriever, Scorer
from denoise_core.result import DenoiseResult, Trace, trace_of
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.flow import arun, run
from denoise_core.runtime.guard import Guard
from denoise_core.runtime.pipeline import Pipeline
from denoise_core.types import (
    Drop,
    Event,
    Keep,
    Message,
    Passage,
    Reply,
    Span,
    Usage,
    unique_ids,
)

if TYPE_CHECKING:
    from denoise_core.augmenter import Augmenter
    from denoise_core.embedded import default_denoiser
    from denoise_core.embedded.fitted import fit_denoiser
    from denoise_core.end import ENDDenoiser
    from denoise_core.evaluate.comparison.setting import load_denoiser
    from denoise_core.s2a import S2ADenoiser
    from denoise_core.s2a.llm_labels import calibrate

__version__ = "0.3.0"

__all__ = [
    "LLM",
    "Augmenter",
    "Budget",
    "BudgetExceeded",
    "DenoiseError",
    "DenoiseResult",
    "Denoiser",
    "Drop",
    "ENDDenoiser",
    "EmptyResult",
    "Event",
    "Guard",
    "InputError",
    "Keep",
    "Message",
    "MissingExtra",
    "Passage",
    "Pipeline",
    "ProbeMismatch",
    "Reply",
    "Retriever",
    "S2ADenoiser",
    "Scorer",
    "Span",
    "Trace",
    "UnparsableReply",
    "Usage",
    "arun",
    "calibrate",
    "default_denoiser",
    "fit_denoiser",
    "load_denoiser",
    "run",
    "trace_of",
    "unique_ids",
]

_HOME = {
    "Augmenter": "augmenter",
    "ENDDenoiser": "end",
    "S2ADenoiser": "s2a",
    "calibrate": "s2a.llm_labels",
    "default_denoiser": "embedded",
    "fit_denoiser": "embedded.fitted",
    "load_denoiser": "evaluate.comparison.setting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
