"""Facts of a text, each with its characters, and what of one text another does not bear out."""

from denoise_core.text.facts.fact import Difference, Fact
from denoise_core.text.facts.comparison import find_differences, extract_facts

__all__ = ["Difference", "Fact", "find_differences", "extract_facts"]
