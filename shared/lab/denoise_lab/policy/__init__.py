"""Train a policy of the loop, in the paper's three stages (LLM-Augmenter, section 2.2).

`imitate` the rules, `reinforce` in a `Simulator`, `learn_from_recorded` runs. The result is a `LinearPolicy`,
which any `denoise_core.augmenter.Augmenter` takes as its ``policy``.
"""

from denoise_lab.policy.fit import (
    OffPolicyReport,
    imitate,
    learn_from_recorded,
    reinforce,
)
from denoise_lab.policy.simulate import Simulator, Turn, simulators
from denoise_lab.policy.trained import LinearPolicy

__all__ = [
    "LinearPolicy",
    "OffPolicyReport",
    "Simulator",
    "Turn",
    "imitate",
    "learn_from_recorded",
    "reinforce",
    "simulators",
]
