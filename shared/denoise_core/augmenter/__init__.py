"""LLM-Augmenter: a loop around a black-box model that consults knowledge, judges, feeds back and tries again.

Enter at `loop.py`. The way of the data: `knowledge` (search, denoise) -> `engine` (prompt) -> `utilities`
(judge) -> `feedback` -> `policy` (what next) -> `finish` (which attempt is sent).
"""

from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.memory import Attempt, Reason, Verdict, WorkingMemory
from denoise_core.augmenter.policy import LoopLimits, Policy, Rules
from denoise_core.augmenter.utilities.groundedness import Groundedness
from denoise_core.augmenter.utility import Utility

__all__ = [
    "Answer",
    "Attempt",
    "Augmenter",
    "BM25Retriever",
    "Consolidator",
    "Feedback",
    "Groundedness",
    "LoopLimits",
    "Outcome",
    "Policy",
    "Reason",
    "Rules",
    "StopReason",
    "TemplateFeedback",
    "Utility",
    "Verdict",
    "WorkingMemory",
]
