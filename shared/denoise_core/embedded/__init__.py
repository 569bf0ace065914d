"""The default that works without a model hub and without torch: MiniLM-L6 weights from a package, in NumPy.

`default_denoiser` is where to start; `DefaultScorer` is its scorer, `embedding_scorer` its cosine alone, `sample`
the questions that ship. How weights and margins were made: `denoise_lab.default`. `span_reader` finds the answer
to a question in passages, or tells how well one fits; `answer` is its shortest form, `judge` the judge made
of it; `WithConflicts` has it look for passages that answer differently.
"""

from denoise_core.embedded.conflicts import WithConflicts
from denoise_core.embedded.default import (
    DefaultScorer,
    default_denoiser,
    embedding_scorer,
    encoder,
    scale,
    stack,
)
from denoise_core.embedded.reader.judge import answer, judge, span_reader
from denoise_core.embedded.sample import sample

__all__ = [
    "DefaultScorer",
    "WithConflicts",
    "answer",
    "default_denoiser",
    "embedding_scorer",
    "encoder",
    "judge",
    "sample",
    "scale",
    "span_reader",
    "stack",
]
