"""A fallback that nobody hears of is a defect: it is logged and counted, by the class of its error.

An error's message may quote what a user wrote, so it is in no log: it stands in the result and in the trace.

The logger is ``logging.getLogger("denoise")``. The first fallback of a kind is a WARNING; later ones are
counted, and the 10th, the 100th, the 1000th ... is a WARNING again that says how many there were. Without any
set-up Python writes warnings to the standard error; ``logging.getLogger("denoise").setLevel("ERROR")`` is silence.
"""

from __future__ import annotations

import logging
import threading

from denoise_core.errors import format_error

logger = logging.getLogger("denoise")

_KINDS = 1000  # more kinds than these are counted together: a kind may hold a foreign class's name
_counts: dict[tuple[str, str], int] = {}
_lock = threading.Lock()


def log_fallback(where: str, error: BaseException | str, instead: str) -> str:
    """Log and count that ``where`` could not do its work; returns what happened as `format_error` puts it.

    ``where`` names the part (``"S2ADenoiser"``), ``instead`` what was done (``"the passage was kept as it
    is"``). A kind is the part and the error's class, or the text where no error was raised.
    """
    happened = format_error(error)
    told = error_class(error) if isinstance(error, BaseException) else happened
    kind = (
        where,
        type(error).__name__ if isinstance(error, BaseException) else happened[:80],
    )
    with _lock:
        if kind not in _counts and len(_counts) >= _KINDS:
            kind = ("other", "")
        count = _counts[kind] = _counts.get(kind, 0) + 1
    if count == 1:
        logger.warning("%s: %s; %s. Further ones are counted.", where, instead, told)
    elif str(count).strip("0") == "1":
        logger.warning(
            "%s: %d times by now: %s; the last one: %s", where, count, instead, told
        )
    return happened


def error_class(error: BaseException) -> str:
    """The error's class, with the status of a server's answer: what can be logged, since it is nobody's text."""
    places = (error, getattr(error, "response", None))
    status = next(
        (
            s
            for p in places
            for s in [getattr(p, "status_code", None)]
            if type(s) is int
        ),
        None,
    )
    return (
        type(error).__name__ if status is None else f"{type(error).__name__} ({status})"
    )


def fallback_counts() -> dict[tuple[str, str], int]:
    """How often each kind happened in this process, by part and error class."""
    with _lock:
        return dict(_counts)
