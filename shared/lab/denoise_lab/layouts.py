"""The other prompts that Early Noise Dropping compares with [S|C|Q] (section 3.3). The wording is ours.

A probe fitted on one of them scores with it: ``ProbeScorer(model, probe, settings=ReadingSettings(layout=QSC))``.
"""

from __future__ import annotations

from denoise_core.local import layout as core
from denoise_core.local.layout import INSTRUCTION, PASSAGE, QUERY, Layout

SQC = Layout(
    "sqc", ("Passage:\n", PASSAGE), system=(INSTRUCTION + "\n\nQuestion: ", QUERY)
)
"""System text, question, passage: compared with `SCQ` in the paper, section 3.3."""
QSC = Layout(
    "qsc", ("Passage:\n", PASSAGE), system=("Question: ", QUERY, "\n\n" + INSTRUCTION)
)
"""Question, system text, passage: compared with `SCQ` in the paper, section 3.3."""
SC = Layout("sc", ("Passage:\n", PASSAGE), system=(INSTRUCTION,))
"""No question: a control that tells how much of a probe is the style of relevant passages (paper, section 3.3)."""
DISTINGUISH = Layout(
    "distinguish",
    ("Question: ", QUERY, "\n\nCan it be answered from the passage alone, yes or no?"),
    system=(
        "You judge whether a passage holds the answer to a question. Reply with yes or no only.\n\nPassage:\n",
        PASSAGE,
    ),
)
"""Asks outright whether the passage holds the answer (paper, section 3.3 and appendix F.4)."""

LAYOUTS = core.LAYOUTS | {layout.name: layout for layout in (SQC, QSC, SC, DISTINGUISH)}
