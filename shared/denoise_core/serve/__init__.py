"""A local model behind the HTTP protocol that every chat client speaks, on one's own machine."""

from __future__ import annotations

from denoise_core.serve.server import LLMServer, ServerLimits

__all__ = ["LLMServer", "ServerLimits"]
