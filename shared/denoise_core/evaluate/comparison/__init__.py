"""Does it help on one's own data: every way over the same questions, with intervals, and the setting to take.

`evaluate` runs them, `read_cases` reads questions of one's own, `cases` finds or makes what they lack, and
`setting` is the ``denoise.json`` that comes out. ``rag-denoise evaluate`` is the command.
"""

from denoise_core.evaluate.comparison.answering import LLMAnswerer
from denoise_core.evaluate.comparison.evaluation import Evaluation, evaluate
from denoise_core.evaluate.comparison.reply_log import ReplyLog
from denoise_core.evaluate.comparison.setting import Strategy
from denoise_core.evaluate.datasets import read_cases

__all__ = [
    "Evaluation",
    "LLMAnswerer",
    "ReplyLog",
    "Strategy",
    "evaluate",
    "read_cases",
]
