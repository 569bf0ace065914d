"""Does it help on one's own data: every way over the same questions, with intervals, and the setting to take.

`evaluate` runs them, `read_cases` reads questions of one's own, `searching` finds their passages in documents,
`load_denoiser` makes a denoiser of the ``denoise.json`` that comes out. ``rag-denoise evaluate`` is the command.
"""

from denoise_core.evaluate.trial.answering import (
    Answerer,
    EmbeddedReader,
    LLMAnswerer,
    LLMJudge,
    LoopAnswerer,
    llm_of,
)
from denoise_core.evaluate.trial.cases import (
    Case,
    Cases,
    labelled_by,
    made_from,
    read_cases,
    read_traces,
    searching,
)
from denoise_core.evaluate.trial.evaluation import Evaluation, Recommendation, evaluate
from denoise_core.evaluate.trial.ledger import Ledger
from denoise_core.evaluate.trial.setting import Way, denoiser_of, load_denoiser, standard_ways

__all__ = [
    "Answerer",
    "Case",
    "Cases",
    "EmbeddedReader",
    "Evaluation",
    "LLMAnswerer",
    "LLMJudge",
    "Ledger",
    "LoopAnswerer",
    "Recommendation",
    "Way",
    "denoiser_of",
    "evaluate",
    "labelled_by",
    "llm_of",
    "load_denoiser",
    "made_from",
    "read_cases",
    "read_traces",
    "searching",
    "standard_ways",
]
