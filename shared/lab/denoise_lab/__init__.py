"""A small language model that ships with the package, trained on a synthetic world: a laboratory for the methods.

`reader` gives it as the core's `LLM`. It answers, rewrites, selects, judges and proposes queries about the things,
people and towns of its world (`denoise_lab.world`) and about nothing else; effects measured with it are
effects of a real transformer that is really distracted, but no statement about large models.
"""

from __future__ import annotations

from denoise_lab.model import FOLDER, reader

__all__ = ["FOLDER", "reader"]
