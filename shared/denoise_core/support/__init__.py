"""The checker: do passages support an answer, claim by claim, and does it answer the question?

`check` needs no model; a reader of real text (`denoise_core.embedded`) makes it see answers that stand in the
passages and answer another question.
"""

from denoise_core.support.abstention import abstains
from denoise_core.support.check import check
from denoise_core.support.question import Reader
from denoise_core.support.result import Check, Claim

__all__ = ["Check", "Claim", "Reader", "abstains", "check"]
