"""Middleware for ``langchain.agents.create_agent``: one file each, sync and async hooks in all.

`DenoiseToolResults` clears what tools bring, `DenoiseTools` chooses the tools that matter, `S2AMiddleware` clears
the user's own words, `VerificationMiddleware` checks the final answer. Not imported with the package: it needs
``langchain``.
"""

from denoise_core import MissingExtra

try:
    from langchain_denoise.middleware.tool_results import DenoiseToolResults
    from langchain_denoise.middleware.tool_selection import DenoiseTools
    from langchain_denoise.middleware.user_messages import S2AMiddleware
    from langchain_denoise.middleware.verification import VerificationMiddleware
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("langchain", "langgraph"):
        raise
    raise MissingExtra(
        "middleware needs langchain; run: pip install 'rag-denoise[agents]'"
    ) from error

__all__ = [
    "DenoiseToolResults",
    "DenoiseTools",
    "S2AMiddleware",
    "VerificationMiddleware",
]
