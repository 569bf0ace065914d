"""Facts of a text, each with its characters, and what of one text another does not bear out."""

from denoise_core.text.facts.comparison import extract_facts, find_differences
from denoise_core.text.facts.fact import Difference, Fact

__all__ = ["Difference", "Fact", "find_differences", "extract_facts"]
