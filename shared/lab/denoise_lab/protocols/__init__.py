"""The three papers' tables on any model: the same questions, systems and measures, next to the papers' figures.

`choose_tables` prepares the tables of one paper, `measure_tables` asks the model, `save_tables` writes results.
``rag-denoise-lab protocol s2a|end|augmenter --llm ...`` is the command.
"""

from denoise_lab.protocols.choose import ProtocolRequest, choose_tables
from denoise_lab.protocols.measure import (
    ProtocolTable,
    SystemReply,
    TableRow,
    TableSpec,
    measure_tables,
)
from denoise_lab.protocols.table import (
    describe_table,
    format_markdown,
    format_rows,
    save_tables,
)

__all__ = [
    "ProtocolRequest",
    "ProtocolTable",
    "SystemReply",
    "TableRow",
    "TableSpec",
    "choose_tables",
    "describe_table",
    "format_markdown",
    "format_rows",
    "measure_tables",
    "save_tables",
]
