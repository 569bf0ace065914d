"""The checker: do passages support an answer, unit by unit, and does it answer?

In: a question, an answer, passages, a judge. Out: an `AnswerVerdict`. Read ``check``
first. ``answers`` cuts the answer into units, ``labels`` the evidence into sentences;
``quoting`` is the judge of a model, ``judges`` those of functions, ``judging`` the
protocol for your own. Without a judge, code shows what is closest, what differs and
which quotations are verbatim (``quotations``), and decides nothing.
"""

from denoise_core.support.answers import parse_answer
from denoise_core.support.check import check, check_flow
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict, Quotation
from denoise_core.support.quotations import check_quotations

__all__ = [
    "AnswerVerdict",
    "ClaimVerdict",
    "Quotation",
    "check",
    "check_flow",
    "check_quotations",
    "parse_answer",
]
