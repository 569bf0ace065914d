"""The parts of S2A's evaluation, which `denoise_lab.protocols` runs.

`cases` (the questions), `systems` (the paper's baselines and variants), `judges` (whether an answer is right),
`distill` (training data from recorded runs).
"""

from denoise_lab.s2a.cases import Case, cases_from_gsm, cases_from_opinions
from denoise_lab.s2a.judges import (
    ExactJudge,
    FactualityJudge,
    Judge,
    MentionJudge,
    NumberJudge,
)
from denoise_lab.s2a.systems import S2ASystem, paper_systems

__all__ = [
    "Case",
    "ExactJudge",
    "FactualityJudge",
    "Judge",
    "MentionJudge",
    "NumberJudge",
    "S2ASystem",
    "cases_from_gsm",
    "cases_from_opinions",
    "paper_systems",
]
