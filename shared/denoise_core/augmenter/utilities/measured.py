"""Error rates of the judges that ship, as ``make bench ONLY=judges`` measured them."""

from __future__ import annotations

import json
from importlib.resources import files

from denoise_core.augmenter.utility import Measured

FILE = "judges.json"

# Read with the module and not at the first judgement, which may be on an event loop.
_FOUND = json.loads(files("denoise_core.augmenter.utilities").joinpath(FILE).read_text("utf-8"))
_RATES = {judge: tuple(Measured(*row) for row in rows) for judge, rows in _FOUND.items()}


def measured(judge: str) -> tuple[Measured, ...]:
    """The shares of right and wrong answers that the judge of this name passed, set by set; none for others."""
    return _RATES.get(judge, ())
