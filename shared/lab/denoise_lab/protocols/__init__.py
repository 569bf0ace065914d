"""The tables of the three papers on any model: the same questions, systems and measures, the papers' figures
beside.

`sheets_of` makes the tables of one paper, `run_sheets` asks the model, `save` writes what came out.
``rag-denoise-lab protocol s2a|end|augmenter --llm ...`` is the command.
"""

from denoise_lab.protocols.choose import PROTOCOLS, Asked, sheets_of
from denoise_lab.protocols.sheet import Line, Sheet, Table, Told, run_sheets
from denoise_lab.protocols.table import markdown, rows_of, save, told

__all__ = [
    "PROTOCOLS",
    "Asked",
    "Line",
    "Sheet",
    "Table",
    "Told",
    "markdown",
    "rows_of",
    "run_sheets",
    "save",
    "sheets_of",
    "told",
]
