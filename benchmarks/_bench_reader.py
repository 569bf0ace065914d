"""The reader of real text as benchmarks ask it: in torch and bfloat16, and each window of a question read once.

The same weights as `span_reader`, several times faster on processors that multiply bfloat16; a logit differs by
some hundredths.
"""

from __future__ import annotations

from denoise_core.embedded.reader.fit.measure import Kept
from denoise_core.embedded.reader.span_reader import SpanReader

ABOUT = "read in bfloat16"


def bench_reader() -> tuple[SpanReader, Kept]:
    """The reader, and what it keeps of rows it has read: to be told to forget when a question is done."""
    import torch

    from denoise_core.embedded.minilm import minilm
    from denoise_core.embedded.reader.calibration import Calibration
    from denoise_core.embedded.reader.fit.network import Network, minilm_weights
    from denoise_core.embedded.reader.fit.train import Bound
    from denoise_core.embedded.reader.make import CALIBRATION, HERE, WEIGHTS
    from denoise_core.embedded.reader.packed import load_packed
    from denoise_core.embedded.reader.windows import tokens

    torch.set_num_threads(1)
    network = Network(minilm_weights(minilm()), torch.bfloat16)
    network.take(load_packed(HERE / WEIGHTS))
    kept = Kept(Bound(network))
    return SpanReader(kept, tokens(), calibration=Calibration.load(HERE / CALIBRATION)), kept
