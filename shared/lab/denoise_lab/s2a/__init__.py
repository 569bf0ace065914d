"""Measure S2A as the paper does: systems on cases, judged, averaged over seeds, by type, with intervals.

`baselines` (what S2A is compared with), `cases` (what is asked), `judges` (what is right), `run` (asking,
resumable), `tables` (what came out), `distill` (learning from it).
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
from denoise_lab.s2a.run import Score, System, evaluate, load_scores, paper_systems
from denoise_lab.s2a.tables import Cell, markdown, table

__all__ = [
    "Baseline",
    "Case",
    "Cell",
    "FactualityJudge",
    "Judge",
    "MatchJudge",
    "NumberJudge",
    "ObjectivityJudge",
    "QualityJudge",
    "Score",
    "System",
    "evaluate",
    "from_gsm",
    "from_opinions",
    "load_scores",
    "markdown",
    "paper_systems",
    "table",
]
