"""The default that works without a model hub and without torch: MiniLM-L6 in NumPy.

In comes a question with passages, out comes END with calibrated scores. Read `default`
first: `default_denoiser` and its scorer. `encoder` computes the three signals and caches
embeddings, `kinds` names what a question asks for, `minilm` is the network, `fitted` fits
a denoiser on the user's own questions, and `sample` has the questions and files that ship.

A new signal goes into `encoder.SentenceEncoder.signals`; the weights that ship
are then made anew by `denoise_lab.default`.
"""

from denoise_core.embedded.default import (
    DefaultScorer,
    default_denoiser,
    default_scale,
    default_stack,
    embedding_scorer,
    shared_encoder,
)
from denoise_core.embedded.sample import sample_folder, sample_questions

__all__ = [
    "DefaultScorer",
    "default_denoiser",
    "default_scale",
    "default_stack",
    "embedding_scorer",
    "sample_folder",
    "sample_questions",
    "shared_encoder",
]
