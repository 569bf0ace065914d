"""A small reader of real text: which span of the passages answers a question, and whether they support a claim.

MiniLM-L6 with low-rank changes of ours, in NumPy. `shipped.span_reader` and `shipped.judge` load it;
`denoise_lab.span_reader` trains it.
"""

from denoise_core.embedded.reader.judge import Calibration, ShippedJudge
from denoise_core.embedded.reader.span_reader import Fit, Found, SpanReader

__all__ = ["Calibration", "Fit", "Found", "ShippedJudge", "SpanReader"]
