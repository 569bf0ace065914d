"""The tables of a paper's protocol as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.evaluate.protocols.sheet import Table
from denoise_core.evaluate.protocols.table import rows_of, told
from denoise_core.report.context import rendered


def page(tables: Sequence[Table], model: str) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    shown = [(t.title, rows_of(t), told(t)) for t in tables]
    return rendered("protocol.html", title="The papers' tables on another model", model=model, tables=shown)
