"""A small reader of real text: which span of the passages answers a question, and how well a given answer fits.

MiniLM-L6 with low-rank changes of ours, in NumPy. `shipped.reader` loads it; `make` trains it. The function
``denoise_core.embedded.reader`` has this package's name: import from here with ``from``.
"""

from denoise_core.embedded.reader.calibration import Calibration
from denoise_core.embedded.reader.span_reader import Fit, Found, SpanReader

__all__ = ["Calibration", "Fit", "Found", "SpanReader"]
