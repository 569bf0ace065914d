"""A laboratory for the methods of `denoise_core`: a small language model, trained on a synthetic world.

`reader` gives it as the core's `LLM`. It answers, rewrites, selects, judges and proposes queries about the things,
people and towns of its world (`denoise_lab.worlds.world`) and about nothing else; effects measured with it are
effects of a real transformer that is really distracted, but no statement about large models.
"""

from __future__ import annotations

from denoise_lab.model import FOLDER, reader

__version__ = "0.2.0"

__all__ = ["FOLDER", "reader"]
