"""Fallbacks are logged and counted, by the class of their error.

An error's message may quote what a user wrote, so no log has it: it is in the result
and in the trace.

The logger is ``logging.getLogger("denoise")``. The first fallback of a kind is a
WARNING; later ones are counted, and the 10th, the 100th, the 1000th ... is a WARNING
again that says how many there were. Without any set-up Python writes warnings to
standard error; ``logging.getLogger("denoise").setLevel("ERROR")`` silences them.
"""

from __future__ import annotations

import logging
import threading

from denoise_core.errors import format_error

logger = logging.getLogger("denoise")

_MAX_KINDS = 1000  # the rest is counted together: class names may come from outside
_counts: dict[tuple[str, str], int] = {}
_lock = threading.Lock()


def log_fallback(component: str, error: BaseException | str, instead: str) -> str:
    """Log and count that ``component`` could not do its work.

    Args:
        component: The part, such as ``"S2ADenoiser"``.
        error: What was raised, or a text where nothing was.
        instead: What was done, such as ``"the passage was kept as it is"``.

    Returns:
        The error as `format_error` gives it. A kind is the component and the error's
        class, or the text where no error was raised.
    """
    message = format_error(error)
    loggable = message
    kind_name = message[:80]
    if isinstance(error, BaseException):
        loggable = error_class(error)
        kind_name = type(error).__name__
    kind = (component, kind_name)
    with _lock:
        if kind not in _counts and len(_counts) >= _MAX_KINDS:
            kind = ("other", "")
        count = _counts[kind] = _counts.get(kind, 0) + 1
    if count == 1:
        logger.warning(
            "%s: %s; %s. Further ones are counted.", component, instead, loggable
        )
    elif str(count).strip("0") == "1":
        logger.warning(
            "%s: %d times by now: %s; the last one: %s",
            component,
            count,
            instead,
            loggable,
        )
    return message


def error_class(error: BaseException) -> str:
    """Return the error's class and the HTTP status, if any: this is safe to log."""
    class_name = type(error).__name__
    for source in (error, getattr(error, "response", None)):
        status = getattr(source, "status_code", None)
        if type(status) is int:
            return f"{class_name} ({status})"
    return class_name


def fallback_counts() -> dict[tuple[str, str], int]:
    """Return how often each kind happened in this process, by part and error class."""
    with _lock:
        return dict(_counts)
