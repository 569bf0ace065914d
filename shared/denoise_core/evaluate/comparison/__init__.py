"""Does denoising help on the user's own data: strategies compared on the same questions.

In come questions with passages, and optionally a model that answers. Out come figures with
intervals, a report, and the setting to take (``denoise.json``). Read `evaluation` first,
whose `evaluate` runs the comparison. `setting` has the strategies (a new kind goes there),
`figures` the measures, `answering` the models that answer and grade, `cases` questions for
which nobody has labels, and `reply_log` the budget. ``rag-denoise evaluate`` is the command.
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
