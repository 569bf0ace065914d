"""The default that works without a model hub: MiniLM-L6 weights from a package, a probe and a stack of ours.

`default_denoiser` is where to start; `DefaultScorer` is its scorer, `probe_scorer` and `embedding_scorer` are
parts of it to be used alone, `sample` is the questions that ship. How they were made: `make`. `reader` finds
the answer to a question in passages, or tells how well a given one fits; `answer` is its shortest form.
"""

from denoise_core.embedded.default import (
    DefaultScorer,
    default_denoiser,
    embedding_scorer,
    encoder,
    probe,
    probe_scorer,
    stack,
)
from denoise_core.embedded.reader.shipped import answer, reader
from denoise_core.embedded.sample import sample

__all__ = [
    "DefaultScorer",
    "answer",
    "default_denoiser",
    "embedding_scorer",
    "encoder",
    "probe",
    "probe_scorer",
    "reader",
    "sample",
    "stack",
]
