"""Early Noise Dropping: drop chunks by what the first layers of a model already know about them.

Entered at `ENDDenoiser`: chunks -> hidden state of layer L -> linear probe -> keep the best. Importing this
package loads neither torch nor a framework.
"""

from denoise_core.end.answering import DenoisedAnswerer
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.probe import HiddenStateSpec, Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.end.remote import RemoteScorer
from denoise_core.end.scorer import ProbeScorer
from denoise_core.end.selection import TokenLimit
from denoise_core.local.generation import LocalLLM
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import PAIR, PASSAGE, QUERY, SCQ, Layout

__all__ = [
    "PAIR",
    "PASSAGE",
    "QUERY",
    "SCQ",
    "ENDDenoiser",
    "HiddenReader",
    "Layout",
    "LocalLLM",
    "PrefixCache",
    "Probe",
    "ProbeScorer",
    "HiddenStateSpec",
    "ReadingSettings",
    "RemoteScorer",
    "DenoisedAnswerer",
    "TokenLimit",
]
