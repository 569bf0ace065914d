"""Facts of a text, each with its characters, and what of one text another does not bear out."""

from denoise_core.text.facts.difference import differences
from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.reading import facts

__all__ = ["Difference", "Fact", "differences", "facts"]
