"""A trained policy: features of the memory -> linear softmax -> REINFORCE (paper, section 2.2).

Three stages, as in the paper: `imitate` the rules, `reinforce` in a `Simulator`, `learn_from_recorded` runs.
"""

from denoise_core.augmenter.reinforce.encoder import TextEncoder
from denoise_core.augmenter.reinforce.features import memory_features, with_text
from denoise_core.augmenter.reinforce.fit import (
    OffPolicyReport,
    ReinforceSettings,
    imitate,
    learn_from_recorded,
    reinforce,
)
from denoise_core.augmenter.reinforce.linear import LinearPolicy
from denoise_core.augmenter.reinforce.simulate import Simulator, Turn, simulators

__all__ = [
    "LinearPolicy",
    "OffPolicyReport",
    "ReinforceSettings",
    "Simulator",
    "TextEncoder",
    "Turn",
    "imitate",
    "learn_from_recorded",
    "memory_features",
    "reinforce",
    "simulators",
    "with_text",
]
