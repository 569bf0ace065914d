"""Denoising, reranking and checking over HTTP: ``rag-denoise serve``, or `make_app` under any ASGI server."""

from __future__ import annotations

from denoise_core.service.settings import Service, ServiceLimits

__all__ = ["Service", "ServiceLimits"]
