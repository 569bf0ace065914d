"""LLM-Augmenter: a loop around a black-box model that searches, drafts, judges and retries.

In: a question, a model or a drafter, a retriever. Out: an `Answer` with its outcome.
Read ``loop`` first. The data goes through ``knowledge`` (search, denoise), ``prompts``,
``utility`` (judge), ``feedback``, ``policy`` (what next) and ``answer`` (which attempt is
sent). A framework's chain or agent is a `drafting.Drafter`, a new judge goes into
`denoise_core.support`, a new retriever or linker into ``knowledge``; ``streaming`` shows
answers while they are written, ``traces`` records runs.
"""

from denoise_core.augmenter.answer import Answer, Outcome, StopReason
from denoise_core.augmenter.feedback import Feedback, TemplateFeedback
from denoise_core.augmenter.knowledge.consolidate import Consolidator
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.loop import Augmenter, answer_with_citations
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.paper_utilities import KnowledgeF1, SelfCriticism
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
    "KnowledgeF1",
    "LoopLimits",
    "Outcome",
    "Policy",
    "Rules",
    "SelfCriticism",
    "StopReason",
    "TemplateFeedback",
    "Utility",
    "WorkingMemory",
    "answer_with_citations",
]
