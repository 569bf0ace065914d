"""Utilities: what a candidate is held against, and how (paper, section 2.4)."""

from denoise_core.augmenter.utilities.groundedness import Groundedness

__all__ = ["Groundedness"]
