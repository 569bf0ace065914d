"""A small reader of real text: which span of the passages answers a question, and how well a given answer fits.

MiniLM-L6 with low-rank changes of ours, in NumPy. `shipped.span_reader` loads it; `make` trains it.
"""

from denoise_core.embedded.reader.calibration import Calibration
from denoise_core.embedded.reader.span_reader import Fit, Found, SpanReader

__all__ = ["Calibration", "Fit", "Found", "SpanReader"]
