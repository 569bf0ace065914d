"""Many rows: read, denoised by many workers, written once each, and gone on with after a kill."""

from __future__ import annotations

from denoise_core.service.bulk.job import Finished, bulk

__all__ = ["Finished", "bulk"]
