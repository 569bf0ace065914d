"""The three papers' tables on any model: the same questions, systems and measures, next to the papers' figures.

`make_sheets` prepares the tables of one paper, `run_sheets` asks the model, `save` writes the results.
``rag-denoise-lab protocol s2a|end|augmenter --llm ...`` is the command.
"""

from denoise_lab.protocols.choose import PROTOCOLS, ProtocolRequest, make_sheets
from denoise_lab.protocols.sheet import Line, Sheet, SystemReply, Table, run_sheets
from denoise_lab.protocols.table import describe_table, format_rows, markdown, save

__all__ = [
    "PROTOCOLS",
    "Line",
    "ProtocolRequest",
    "Sheet",
    "SystemReply",
    "Table",
    "describe_table",
    "format_rows",
    "make_sheets",
    "markdown",
    "run_sheets",
    "save",
]
