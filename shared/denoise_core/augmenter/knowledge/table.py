"""Tables as evidence: each row a passage of its own, written out with the header."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.errors import InputError
from denoise_core.types import Passage


def rows_as_passages(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, title: str, table_id: str
) -> tuple[Passage, ...]:
    """``Year is 2017 ; Title is Madden NFL 18``: one passage a row, empty cells left out.

    Ids are ``<table_id>#row<n>``, n from 0; the metadata holds ``title``, ``kind`` ("row"), ``table`` and
    ``row``, so that a chain leads back to the row. Raises `InputError` for a row of another length than the
    header, naming it.
    """
    found = []
    for n, row in enumerate(rows):
        if len(row) != len(header):
            raise InputError(f"table {table_id!r}, row {n}: expected {len(header)} cells, got {len(row)}")
        cells = [(name, str(cell).strip()) for name, cell in zip(header, row, strict=True) if cell is not None]
        text = " ; ".join(f"{name} is {cell}" if name else cell for name, cell in cells if cell)
        metadata = {"title": title, "kind": "row", "table": table_id, "row": n}
        found.append(Passage(text, f"{table_id}#row{n}", metadata=metadata))
    return tuple(found)
