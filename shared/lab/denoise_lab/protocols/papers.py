"""The figures that the papers report, in percent, each with its source; tables show them next to new ones.

The papers used other models, prompts and questions, so figures are comparable in kind, not digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALL = "all"  # the column over the cases of all kinds


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """Figures of one table.

    Attributes:
        source: Paper, section or table, model and questions.
        figures: By system and column, in percent.
    """

    source: str
    figures: Mapping[str, Mapping[str, float]]


OPINION_FIGURES = PaperFigures(
    "System 2 Attention (arXiv 2311.11829), section 3.2, Figure 5, and section 3.2.1: LLaMA-2-70B-chat, 200 "
    "questions of TriviaQA with opinions from SycophancyEval, judged by a model",
    {
        "plain": {ALL: 62.8},
        "oracle": {ALL: 82.0},
        "instructed": {
            ALL: 71.7,
            "correct_suggested": 92.0,
            "incorrect_suggested": 38.0,
        },
        "s2a default": {ALL: 80.3},
        "s2a keep_original": {ALL: 74.5},
    },
)

PROBLEM_FIGURES = PaperFigures(
    "System 2 Attention (arXiv 2311.11829), section 3.2, Figure 7: LLaMA-2-70B-chat, GSM-IC, three seeds; "
    "with a sentence off the topic S2A gains about 12 points; the text does not say from which base",
    {"plain": {"topic": 51.7}, "s2a relevance": {"topic": 61.3}},
)

# By system, for level 0 to 4 of the distractors. Table 1 has the standard set too, from
# another run (91, 54 and 8 for the last levels), but without the other systems.
_TABLE_1_EXTENDED = {"all in": (100.0, 94.0, 71.0, 40.0, 4.0)}
_TABLE_2 = {
    "all in": (100.0, 100.0, 95.0, 51.0, 7.0),
    "LLM-Discrim": (100.0, 100.0, 100.0, 98.0, 20.0),
    "END": (100.0, 100.0, 100.0, 98.0, 68.0),
}


def noisy_retrieval_figures(extended: bool) -> PaperFigures:
    """END's Table 2 (standard set), or Table 1 for the extended set, which has no other systems."""
    systems = _TABLE_1_EXTENDED if extended else _TABLE_2
    figures: dict[str, dict[str, float]] = {}
    for system, level_figures in systems.items():
        figures[system] = {}
        for level, figure in enumerate(level_figures):
            figures[system][f"level {level}"] = figure
    return PaperFigures(
        "Early Noise Dropping (arXiv 2502.18915), Table 2 (extended: Table 1): Llama-3-8B, about 4,000 tokens a "
        "question (extended: 8,000); END by a probe on its layer 13, 30 % kept",
        figures,
    )


NEWS_CHAT_FIGURES = PaperFigures(
    "LLM-Augmenter (arXiv 2302.12813), Table 1, news chat: ChatGPT, Knowledge-F1 against the gold knowledge",
    {
        "closed book": {ALL: 26.71},
        "BM25": {ALL: 34.96},
        "BM25, feedback": {ALL: 36.41},
        "gold": {ALL: 57.44},
        "gold, feedback": {ALL: 60.76},
    },
)

ANSWER_FIGURES = PaperFigures(
    "LLM-Augmenter (arXiv 2302.12813) reports overlap with the gold text, no share of right answers",
    {},
)
