"""The loop's judges: any `denoise_core.support.judging.Judge`, held to question, evidence and candidate.

`Groundedness` makes a verdict of what a judge says of each claim (LLM-Augmenter, section 2.4); `default_judge` is
the one where none is given.
"""

from denoise_core.augmenter.utilities.default import default_judge
from denoise_core.augmenter.utilities.groundedness import Groundedness, as_utility

__all__ = ["Groundedness", "as_utility", "default_judge"]
