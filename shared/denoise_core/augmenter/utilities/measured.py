"""Error rates of the judges that ship, as ``make bench ONLY=judges`` measured them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from denoise_core.augmenter.utility import Measured

FILE = "judges.json"


@cache
def measured(judge: str) -> tuple[Measured, ...]:
    """The shares of right and wrong answers that the judge of this name passed, set by set; none for others."""
    found = json.loads(files("denoise_core.augmenter.utilities").joinpath(FILE).read_text("utf-8"))
    return tuple(Measured(*row) for row in found.get(judge, ()))
