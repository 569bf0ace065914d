"""Middleware for ``langchain.agents.create_agent``, with sync and async hooks.

A request to the model, a tool's result or the model's answer comes in, and goes on
without what does not matter. Read `tool_results.py` first: `DenoiseToolResults` denoises
what tools return. `S2AMiddleware` (`user_messages.py`) removes opinion from the user's
messages, `VerificationMiddleware` (`verification.py`) checks the final answer. Two of a
kind in one agent need two classes, because an agent knows middleware by its class: write
``class Second(DenoiseToolResults): pass``. A new shape of tool message goes into
`tool_messages.py`. Not imported with the package, because it needs ``langchain``.
"""

from denoise_core import MissingExtra

try:
    from langchain_denoise.middleware.tool_results import DenoiseToolResults
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
    "S2AMiddleware",
    "VerificationMiddleware",
]
