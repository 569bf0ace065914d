"""The tables of a paper's protocol as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.evaluate.protocols.sheet import Table
from denoise_core.evaluate.protocols.table import rows_of, told
from denoise_core.report.context import rendered


def page(tables: Sequence[Table], model: str) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    return rendered(
        "protocol.html", title="The papers' tables on another model", model=model, tables=_shown(tables)
    )


def fragment(table: Table) -> str:
    """One table for a notebook, with its own styles."""
    return rendered("protocol_fragment.html", tables=_shown([table]))


def _shown(tables: Sequence[Table]) -> list[tuple[str, list[list[str]], list[str]]]:
    return [(t.title, rows_of(t), told(t)) for t in tables]
