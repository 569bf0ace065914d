"""The parts of S2A's evaluation, which `denoise_lab.protocols` runs.

`systems` (the paper's variants and `baselines`), `cases` (what is asked), `judges` (what
is right), `distill` (learning from it).
"""

from denoise_lab.s2a.baselines import Baseline
from denoise_lab.s2a.cases import Case, from_gsm, from_opinions
from denoise_lab.s2a.judges import (
    FactualityJudge,
    Judge,
    MatchJudge,
    NumberJudge,
    ObjectivityJudge,
    QualityJudge,
)
from denoise_lab.s2a.systems import System, paper_systems

__all__ = [
    "Baseline",
    "Case",
    "FactualityJudge",
    "Judge",
    "MatchJudge",
    "NumberJudge",
    "ObjectivityJudge",
    "QualityJudge",
    "System",
    "from_gsm",
    "from_opinions",
    "paper_systems",
]
