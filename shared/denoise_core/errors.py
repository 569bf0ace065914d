"""The exceptions of this package, and which errors are the user's to fix.

Catch `DenoiseError` for all of ours. There are two kinds, and `is_user_error` tells
them apart. *User errors* stay wrong however often they are tried: settings, a missing
extra, a wrong type, a foreign probe, a refused key, programming errors. They always
raise, through every fallback. *Failures* concern one moment or one item: time-outs,
rate limits, a server's 5xx, an unreadable reply, a spent budget, a question that is
longer than a scorer's window. They follow the caller's policy (``on_error``).

Errors of an HTTP client or a model are never wrapped: they reach the caller with their
own type, and the trace so far is attached to them: see `denoise_core.trace_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise


class DenoiseError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(DenoiseError, ValueError):
    """Input or settings that cannot be used; the message says what was expected."""


class PromptTooLong(InputError):
    """A prompt for a local scorer does not fit the model's window, or the memory.

    A failure and no user error: the next question may fit.
    """


class MissingExtra(DenoiseError, ImportError):
    """An optional dependency is missing; the message holds the install command."""


class ProbeMismatch(DenoiseError, ValueError):
    """The probe does not belong to this model; the message names each difference."""


class UnparsableReply(DenoiseError, ValueError):
    """The reply of an LLM could not be read; the message quotes its beginning."""


class BudgetExceeded(DenoiseError, RuntimeError):
    """The next effect was not made; ``resource`` is calls, tokens or seconds."""

    def __init__(self, what: str, limit: float, spent: float) -> None:
        super().__init__(
            f"budget of {limit:g} {what} is spent ({spent:g} used); the call was not made"
        )
        self.resource = what
        self.limit = limit
        self.spent = spent

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[str, float, float]]:
        return type(self), (self.resource, self.limit, self.spent)


class ServerUnreachable(DenoiseError, ConnectionError):
    """A model's server could not be reached; the message holds its address."""


class EmptyResult(DenoiseError, RuntimeError):
    """Everything was dropped although passages came in."""


class ContractViolation(DenoiseError, RuntimeError):
    """A model, retriever, scorer or denoiser returned what its protocol forbids.

    A failure and no user error: a wrong argument can be corrected before a run, a wrong
    return value cannot.
    """


class BadReply(ContractViolation):
    """A server's reply is unusable.

    A refusal, a redirect, no JSON, NaN, another number of results, or too many bytes.
    ``status`` is HTTP's, None where that was right.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[BadReply], tuple[str, int | None]]:
        return type(self), (str(self), self.status)


class BadScores(ContractViolation, InputError):
    """A scorer gave NaN, or another number of scores than texts."""


_USER_ERRORS = (
    InputError, MissingExtra, ProbeMismatch, TypeError, AttributeError, NameError, ImportError, SyntaxError,
    NotImplementedError, PermissionError,
)  # fmt: skip

# Providers' and frameworks' classes, by name: no client is imported for this.
_REFUSAL_NAMES = re.compile(
    r"(?:Invalid|Missing)?(?:Api_?Key|Credentials?)(?:Missing|NotFound)?(?:Error|Exception)|NoCredentials(?:Error)?|"
    r"(?:Authentication|Authorization|PermissionDenied|AccessDenied|Unauthenticated|Unauthorized|Forbidden|Permission"
    r"|DefaultCredentials|UnrecognizedClient|InvalidSignature|ExpiredToken|GatedRepo)(?:Error|Exception)?",
    re.IGNORECASE,
)
_REFUSAL_CODES = {"401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED"}


def is_user_error(error: BaseException) -> bool:
    """Tell whether trying again cannot help: see this module's docstring.

    A refused key is recognised by a status of 401 or 403 (``status_code``, ``status``,
    ``code``, also of the ``response``) or by the name of the error's class; also when
    another error was raised from it. A group is a user error when one of its errors is.
    """
    seen_ids: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen_ids and len(seen_ids) < 20:
        seen_ids.add(id(current))
        inner_errors: Sequence[BaseException] = ()
        if isinstance(current, BaseExceptionGroup):
            inner_errors = current.exceptions
        if any(is_user_error(inner) for inner in inner_errors):
            return True
        if isinstance(current, ContractViolation | PromptTooLong):
            return False
        is_ours = isinstance(current, DenoiseError)
        # Of a cause only our own classes count: a TypeError there may be handled.
        if isinstance(current, _USER_ERRORS) and (is_ours or current is error):
            return True
        if is_auth_refusal(current):
            return True
        if is_ours or isinstance(current, TimeoutError):
            return False  # raised on purpose, whatever caused it
        current = current.__cause__
    return False


def is_auth_refusal(error: BaseException) -> bool:
    """Tell whether a server refused the key: status 401 or 403, or the class's name."""
    if any(_REFUSAL_NAMES.fullmatch(c.__name__) for c in type(error).__mro__[:-2]):
        return True
    for source in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            if _is_refusal_code(source, name):
                return True
    return False


def _is_refusal_code(source: object, name: str) -> bool:
    try:
        if isinstance(source, dict):
            code = source.get(name)
        else:
            code = getattr(source, name, None)
        if name == "code" and callable(code):  # a method in grpc
            code = code()
        if isinstance(code, int):
            return int(code) in (401, 403)
        text = code if isinstance(code, str) else getattr(code, "name", None)
        return text in _REFUSAL_CODES
    except Exception:  # a foreign property may raise anything
        return False


MAX_ERROR_CHARS = 300  # characters of an error's text that are stored, logged or shown

_MAX_READ_CHARS = 4000  # of which are looked at
_SECRETS = re.compile(
    r"(?P<before>://[^\s/@:]{0,100}:)[^\s/@]{1,200}(?=@)"
    r"|(?P<header>\b(?:(?:proxy-)?authorization|(?:set-)?cookie"
    r"|x-(?:[a-z]{1,20}-){0,3}(?:auth|token|key|secret|signature)(?:-[a-z]{1,20}){0,2})"
    r"\\?[\"']?\s{0,3}[:=]\s{0,3})(?:\"[^\"\r\n]+|'[^'\r\n]+|[^\s\"'][^\r\n]*)"
    r"|(?P<name>(?:api[-_ ]?key|(?:access|private)[-_ ]?key|secret|token|passw(?:or)?d|passphrase|credentials?"
    r"|sig(?:nature)?|(?<![a-z])(?:pass|pwd|auth|session|пароль))"
    r"(?:[-_ ]?(?:id|key|token|provided))?\\?[\"']?"
    r"(?:\s{0,3}[:=]\s{0,3}|\s{1,3}is\s{1,3}(?=\S{0,60}\d)|\s{1,3}(?=[\"'][^\s\"']{0,60}\d)|(?<=--password)\s{1,3}|(?<=--token)\s{1,3})"
    r"\\?(?:bearer\s{1,3}|basic\s{1,3})?)"
    r"(?:\\?\"[^\"\\\r\n]{3,}|\\?'[^'\\\r\n]{3,}|[^\s\"',;&}<>)\]\\]{3,})"
    r"|(?P<user>\s(?:-u|--user)\s{1,3}[^\s:]{1,60}:)\S{3,}"
    r"|(?P<scheme>\b(?:bearer|basic)\s{1,3})[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(?-i:(?:sk|pk|rk|gsk|xai|pplx|nvapi|glpat|xox[abeprs])-|(?:sk|hf|gsk|ghp|gho|ghs|github_pat|lsv2|pcsk)_"
    r"|AKIA|ASIA|AIza|ya29\.|eyJ)[A-Za-z0-9*._-]{6,}"
    r"|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}",  # after a prefix and "_", too
    re.IGNORECASE,
)
_LONG_TOKENS = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9+/_=.~-]{24,}")
_MIN_CHANGES = 0.35  # per character, from lower to upper case, digits and back


def mask_secrets(text: str) -> str:
    """Replace what looks like a key, a token or a password by ``***``.

    That is a value with such a name, a form that a service documents, and any long
    token whose letters and digits change as in random ones.
    """

    def mask(match: re.Match[str]) -> str:
        groups = match.groupdict()
        return f"{''.join(filter(None, groups.values()))}***"

    return _SECRETS.sub(mask, _LONG_TOKENS.sub(_mask_random, text))


def _mask_random(match: re.Match[str]) -> str:
    """Mask a token that changes between kinds of characters as often as random ones."""
    kinds = []
    for symbol in match[0]:
        if symbol.isalnum():
            kinds.append((symbol.isdigit(), symbol.isupper()))
    changes = sum(kind != next_kind for kind, next_kind in pairwise(kinds))
    if changes < _MIN_CHANGES * len(match[0]):
        return match[0]
    return "***"


def format_error(error: BaseException | str) -> str:
    """Return ``Type: message`` on one line, without secrets: safe for a log or a record.

    At most `MAX_ERROR_CHARS` characters.

    >>> format_error(ValueError("HTTP 400, api_key=abc123"))
    'ValueError: HTTP 400, api_key=***'
    """
    if isinstance(error, BaseException):
        try:
            message = str(error)
        except Exception:  # a foreign __str__ may raise anything
            message = "(its message cannot be read)"
        class_name = type(error).__name__
        text = f"{class_name}: {message[:_MAX_READ_CHARS]}" if message else class_name
    else:
        text = error[:_MAX_READ_CHARS]
    line = " ".join(mask_secrets(text).split())
    line = line.encode("utf-8", "replace").decode()
    if len(line) <= MAX_ERROR_CHARS:
        return line
    return f"{line[: MAX_ERROR_CHARS - 4]} ..."
