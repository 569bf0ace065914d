"""Model servers over HTTP: which replica is asked, and how often, and until when."""

from __future__ import annotations

from denoise_core.running.engines.client import Engine, RemoteLimits, Retried, lowest

__all__ = ["Engine", "RemoteLimits", "Retried", "lowest"]
