"""Facts of a text, each with its characters, and what of one text another does not bear out."""

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.comparison import differences, facts

__all__ = ["Difference", "Fact", "differences", "facts"]
