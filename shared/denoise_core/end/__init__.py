"""Early Noise Dropping: drop chunks by what a model's first layers know about them.

Passages and a query go in, a `DenoiseResult` comes out: chunks -> hidden state of layer L
-> linear probe -> keep the best (arXiv 2502.18915). Read `denoiser` first, then
`selection` (which chunks to keep), `calibration` (how much, for a stated risk), `budget`
(token limits), `probe`, `reader`, `heads` and `scorer` (scores from a model). `fit` makes probes.

A new scorer goes to `denoise_core.scorers`, a new keep rule to `selection`. Importing this
package loads neither torch nor a framework.
"""

from denoise_core.end.answering import DenoisedAnswerer
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.heads import HeadReader
from denoise_core.end.probe import HiddenStateSpec, Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.remote import RemoteScorer
from denoise_core.end.scorer import ProbeScorer
from denoise_core.end.selection import TokenLimit
from denoise_core.local.generation import LocalLLM
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import PASSAGE, QUERY, SCQ, Layout

__all__ = [
    "PASSAGE",
    "QUERY",
    "SCQ",
    "DenoisedAnswerer",
    "ENDDenoiser",
    "HeadReader",
    "HiddenReader",
    "HiddenStateSpec",
    "Layout",
    "LocalLLM",
    "PrefixCache",
    "Probe",
    "ProbeScorer",
    "ReadingSettings",
    "RemoteScorer",
    "TokenLimit",
]
