"""Takes the noise out of what a language model reads, and checks what it writes.

The vocabulary of all three methods. The methods themselves are `denoise_core.end` (Early Noise Dropping),
`denoise_core.s2a` (System 2 Attention) and `denoise_core.augmenter` (LLM-Augmenter).
"""

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
from denoise_core.result import DenoiseResult, Event, Trace, trace_of
from denoise_core.running.budget import Budget, Price
from denoise_core.running.flow import arun, run
from denoise_core.running.guard import Guard
from denoise_core.running.pipeline import Pipeline
from denoise_core.types import Drop, Keep, Message, Passage, Reply, Span, Usage, unique_ids

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "Budget",
    "BudgetExceeded",
    "DenoiseError",
    "DenoiseResult",
    "Denoiser",
    "Drop",
    "EmptyResult",
    "Event",
    "Guard",
    "InputError",
    "Keep",
    "Message",
    "MissingExtra",
    "Passage",
    "Pipeline",
    "Price",
    "ProbeMismatch",
    "Reply",
    "Retriever",
    "Scorer",
    "Span",
    "Trace",
    "UnparsableReply",
    "Usage",
    "arun",
    "run",
    "trace_of",
    "unique_ids",
]
