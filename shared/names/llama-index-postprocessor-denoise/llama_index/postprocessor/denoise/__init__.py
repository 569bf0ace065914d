"""The parts of `llamaindex_denoise`, where LlamaIndex's integrations are looked for."""

import llamaindex_denoise as _ours
from llamaindex_denoise import *  # noqa: F403

__all__ = _ours.__all__
