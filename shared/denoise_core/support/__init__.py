"""The checker: do passages support an answer, claim by claim, and does it answer the question?

`check` parses the answer and asks a judge. Without one, code says what differs, and a reader of real text
(`denoise_core.embedded`) whether a short answer stands there.
"""

from denoise_core.support.abstention import abstains
from denoise_core.support.answers import parse
from denoise_core.support.check import check, checking
from denoise_core.support.question import Reader
from denoise_core.support.result import Check

__all__ = ["Check", "Reader", "abstains", "check", "checking", "parse"]
