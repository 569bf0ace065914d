"""The checker: do passages support an answer, claim by claim, and does it answer?

In: a question, an answer, passages, a judge. Out: an `AnswerVerdict`. Read ``check``
first. ``answers`` parses the answer, ``quoting`` is the judge of a model, ``judges`` those
of functions, ``judging`` the protocol for your own. Without a judge, code shows what is
closest and what differs, and decides nothing.
"""

from denoise_core.support.answers import parse_answer
from denoise_core.support.check import check, check_flow
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict

__all__ = ["AnswerVerdict", "ClaimVerdict", "check", "check_flow", "parse_answer"]
