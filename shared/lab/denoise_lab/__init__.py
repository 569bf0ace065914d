"""The laboratory of `denoise_core`: the papers' protocols on real models, and what training and measuring need."""

__version__ = "0.3.0"
