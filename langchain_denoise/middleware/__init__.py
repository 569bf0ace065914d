"""Middleware for ``langchain.agents.create_agent``: one file each, sync and async hooks in all.

`DenoiseToolResults` clears what retrieval tools bring, `S2AMiddleware` the user's own words,
`VerificationMiddleware` checks the final answer. Not imported with the package: it needs ``langchain``.
"""

from denoise_core._optional import require

require("langchain.agents", extra="agents")

from langchain_denoise.middleware.tool_results import DenoiseToolResults  # noqa: E402
from langchain_denoise.middleware.user_words import S2AMiddleware  # noqa: E402
from langchain_denoise.middleware.verification import VerificationMiddleware  # noqa: E402

__all__ = ["DenoiseToolResults", "S2AMiddleware", "VerificationMiddleware"]
