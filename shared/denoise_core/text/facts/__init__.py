"""Facts of a text, and which facts of a claim a source does not support.

Comes in: a text. Goes out: `Fact` objects with exact ranges (`extract_facts`), or the
`Difference` objects between a claim and a source (`find_differences`). Read `comparison`
first. `dates`, `names` and `numbers` each find one kind of fact among lexemes; a new
kind gets a module like them and a case in `comparison`.
"""

from denoise_core.text.facts.comparison import extract_facts, find_differences
from denoise_core.text.facts.fact import Difference, Fact

__all__ = ["Difference", "Fact", "extract_facts", "find_differences"]
