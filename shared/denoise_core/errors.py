"""Our exception tree, and which errors are mistakes. Catch `DenoiseError` for all of ours.

There are two kinds, `is_user_error` tells them apart. *Mistakes* stay wrong however often they are tried: settings, a
missing extra, a wrong type, a foreign probe, a key that is refused, errors of programming. They always raise,
through every fallback. *Failures* are of the moment or of one item: time-outs, rate limits, a server's 5xx, an
unreadable reply, a spent budget. They follow the policy of whoever asked (``on_error``).

Errors of the outside (an HTTP client, a model) are never wrapped: they reach the caller with their own
type, and the record of what had happened so far travels on them: see `denoise_core.trace_of`.
"""

from __future__ import annotations

import re


class DenoiseError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(DenoiseError, ValueError):
    """Input or settings that cannot be used; the message says what was expected and what came."""


class MissingExtra(DenoiseError, ImportError):
    """An optional dependency is missing; the message holds the install command."""


class ProbeMismatch(DenoiseError, ValueError):
    """The probe does not belong to this model; the message names each difference."""


class UnparsableReply(DenoiseError, ValueError):
    """The reply of an LLM could not be read; the message quotes its beginning."""


class BudgetExceeded(DenoiseError, RuntimeError):
    """The next effect was refused, not made. ``what`` is calls, tokens, seconds or money."""

    def __init__(self, what: str, limit: float, spent: float) -> None:
        super().__init__(
            f"budget of {limit:g} {what} is spent ({spent:g} used); the call was not made"
        )
        self.resource = what
        self.limit = limit
        self.spent = spent

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[str, float, float]]:
        return type(self), (self.resource, self.limit, self.spent)


class NotRecorded(DenoiseError, LookupError):
    """A replay was asked for an effect that the recording does not hold; nothing was called."""


class EmptyResult(DenoiseError, RuntimeError):
    """Everything was dropped although passages came in."""


class ContractViolation(DenoiseError, RuntimeError):
    """What a model, retriever, scorer or denoiser handed back breaks a law of its kind; the message says which.

    A failure and no mistake: what is handed over wrong can be put right before a run, what comes back wrong
    cannot.
    """


class BadReply(ContractViolation):
    """What a server replied is not what such a server replies: a refusal, a redirect, no JSON, NaN, another number
    of results, or too many bytes. ``status`` is HTTP's, None where that was right."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[BadReply], tuple[str, int | None]]:
        return type(self), (str(self), self.status)


class BadScores(ContractViolation, InputError):
    """A scorer gave NaN, or another number of scores than texts: a failure of this call, see `ContractViolation`."""


_MISTAKES = (
    InputError, MissingExtra, ProbeMismatch, TypeError, AttributeError, NameError, ImportError, SyntaxError,
    NotImplementedError, PermissionError,
)  # fmt: skip

# Providers' and frameworks' classes, by name: no client is imported for this.
_REFUSED = re.compile(
    r"(?:Invalid|Missing)?(?:Api_?Key|Credentials?)(?:Missing|NotFound)?(?:Error|Exception)|NoCredentials(?:Error)?|"
    r"(?:Authentication|Authorization|PermissionDenied|AccessDenied|Unauthenticated|Unauthorized|Forbidden|Permission"
    r"|DefaultCredentials|UnrecognizedClient|InvalidSignature|ExpiredToken|GatedRepo)(?:Error|Exception)?",
    re.IGNORECASE,
)
_REFUSED_CODES = {"401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED"}


def is_user_error(error: BaseException) -> bool:
    """Whether trying again cannot help: see this module's docstring.

    A refusal is known by a status of 401 or 403 (``status_code``, ``status``, ``code``, the ``response``'s
    too) or by the name of the error's class; also when another error was raised from it. A group is a mistake
    when one of its errors is.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < 20:
        seen.add(id(current))
        if isinstance(current, BaseExceptionGroup) and any(
            is_user_error(e) for e in current.exceptions
        ):
            return True
        if isinstance(current, ContractViolation):
            return False
        ours = isinstance(current, DenoiseError)
        if is_auth_refusal(current) or (
            isinstance(current, _MISTAKES) and (ours or current is error)
        ):
            return True
        if ours or isinstance(current, TimeoutError):
            return False  # said on purpose, whatever stands behind it
        current = current.__cause__
    return False


def is_auth_refusal(error: BaseException) -> bool:
    """Whether a server refused the key: a status of 401 or 403, or a class of error that is called so."""
    if any(_REFUSED.fullmatch(c.__name__) for c in type(error).__mro__[:-2]):
        return True
    places = (error, getattr(error, "response", None))
    return any(
        _refuses(place, name)
        for place in places
        for name in ("status_code", "status", "code")
    )


def _refuses(place: object, name: str) -> bool:
    try:
        code = (
            place.get(name) if isinstance(place, dict) else getattr(place, name, None)
        )
        code = (
            code() if name == "code" and callable(code) else code
        )  # grpc's is a method
        if isinstance(code, int):
            return int(code) in (401, 403)
        return (
            code if isinstance(code, str) else getattr(code, "name", None)
        ) in _REFUSED_CODES
    except Exception:  # a foreign property may raise whatever it likes
        return False


MAX_ERROR_CHARS = 300  # characters of an error's text that are stored, logged or shown

_READ = 4000  # of which are looked at
_SECRETS = re.compile(
    r"(?P<before>://[^\s/@:]{0,100}:)[^\s/@]{1,200}(?=@)"
    r"|(?P<name>(?:api[-_ ]?key|access[-_ ]?key"
    r"|secret|token|passw(?:or)?d|authorization|credentials?|sig(?:nature)?)"
    r"(?:[-_ ]?(?:id|key|token|provided))?[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer\s{1,3}|basic\s{1,3})?)"
    r"[^\s\"',;&}<>)\]]{3,}"
    r"|(?P<scheme>\b(?:bearer|basic)\s{1,3})[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(?-i:(?:sk|pk|rk|gsk|xai|pplx|nvapi|glpat|xox[abeprs])-|(?:sk|hf|gsk|ghp|gho|ghs|github_pat|lsv2|pcsk)_"
    r"|AKIA|ASIA|AIza|ya29\.|eyJ)[A-Za-z0-9*._-]{6,}"
    r"|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}",  # after a prefix and "_", too
    re.IGNORECASE,
)


def mask_secrets(text: str) -> str:
    """The text with what looks like a key, a token or a password replaced by ``***``."""
    return _SECRETS.sub(
        lambda m: f"{m['before'] or m['name'] or m['scheme'] or ''}***", text
    )


def format_error(error: BaseException | str) -> str:
    """``Type: message`` on one line, at most `MAX_ERROR_CHARS` characters, without secrets: fit for a log or a record.

    >>> said(ValueError("HTTP 400, api_key=abc123"))
    'ValueError: HTTP 400, api_key=***'
    """
    if isinstance(error, BaseException):
        try:
            message = str(error)
        except Exception:  # a foreign __str__ may raise whatever it likes
            message = "(its message cannot be read)"
        text = (
            f"{type(error).__name__}: {message[:_READ]}"
            if message
            else type(error).__name__
        )
    else:
        text = error[:_READ]
    line = " ".join(mask_secrets(text).split())
    line = line.encode("utf-8", "replace").decode()
    return (
        line if len(line) <= MAX_ERROR_CHARS else f"{line[: MAX_ERROR_CHARS - 4]} ..."
    )
