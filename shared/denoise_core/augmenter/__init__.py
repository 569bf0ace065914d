"""LLM-Augmenter: a loop around a black-box model that consults knowledge, judges, feeds back and tries again.

Enter at `loop.py`. The way of the data: `knowledge` (search, denoise) -> `prompts` -> `utility`
(judge) -> `feedback` -> `policy` (what next) -> `answer` (which attempt is sent).
"""

from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits, Policy, Rules
from denoise_core.augmenter.utility import Groundedness, Utility
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict

__all__ = [
    "Answer",
    "AnswerVerdict",
    "Attempt",
    "Augmenter",
    "BM25Retriever",
    "ClaimVerdict",
    "Consolidator",
    "Feedback",
    "Groundedness",
    "LoopLimits",
    "Outcome",
    "Policy",
    "Rules",
    "StopReason",
    "TemplateFeedback",
    "Utility",
    "WorkingMemory",
]
