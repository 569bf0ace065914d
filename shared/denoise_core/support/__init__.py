"""The checker: do passages support an answer, claim by claim, and does it answer the question?

`check` parses the answer and asks a judge. Without one, code says what differs, and never that it is supported.
"""

from denoise_core.support.abstention import abstains
from denoise_core.support.answers import parse
from denoise_core.support.check import check, checking
from denoise_core.support.result import Check

__all__ = ["Check", "abstains", "check", "checking", "parse"]
