"""The default that works without a model hub and without torch: MiniLM-L6 weights from a package, in NumPy.

`default_denoiser` is where to start; `DefaultScorer` is its scorer, `embedding_scorer` its cosine alone, `sample`
the questions that ship. How weights and margins were made: `denoise_lab.default`.
"""

from denoise_core.embedded.default import (
    DefaultScorer,
    default_denoiser,
    default_scale,
    default_stack,
    embedding_scorer,
    shared_encoder,
)
from denoise_core.embedded.sample import sample_questions

__all__ = [
    "DefaultScorer",
    "default_denoiser",
    "embedding_scorer",
    "shared_encoder",
    "sample_questions",
    "default_scale",
    "default_stack",
]
