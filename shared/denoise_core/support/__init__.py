"""The checker: do passages support an answer, claim by claim, and does it answer the question?

`check` parses the answer and asks a judge. Without one, code shows what is nearest and what differs, and decides
nothing.
"""

from denoise_core.support.answers import parse_answer
from denoise_core.support.check import check, check_flow
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict

__all__ = ["AnswerVerdict", "ClaimVerdict", "check", "check_flow", "parse_answer"]
