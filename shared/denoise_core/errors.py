"""Our exception tree. Catch `DenoiseError` for all of it.

* DenoiseError
  - InputError        (also ValueError)    passages, records or settings that cannot be used as they are
  - MissingExtra      (also ImportError)   an optional dependency is not installed
  - ProbeMismatch     (also ValueError)    a probe was fitted on another model, layer, layout or width
  - UnparsableReply   (also ValueError)    an LLM's reply did not follow the format it was asked for
  - BudgetExceeded    (also RuntimeError)  the next effect would pass a limit of the `Budget`
  - NotRecorded       (also LookupError)   a replay came to a call that the recorded run did not make
  - EmptyResult       (also RuntimeError)  a denoiser kept nothing and the policy says that is an error

Errors of the outside (an HTTP client, a model) are never wrapped: they reach the caller with their own
type, and the record of what had happened so far travels on them: see `denoise_core.trace_of`.
"""


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
        super().__init__(f"budget of {limit:g} {what} is spent ({spent:g} used); the call was not made")
        self.what = what
        self.limit = limit
        self.spent = spent

    def __reduce__(self) -> tuple[type["BudgetExceeded"], tuple[str, float, float]]:
        return type(self), (self.what, self.limit, self.spent)


class NotRecorded(DenoiseError, LookupError):
    """A replay was asked for an effect that the recording does not hold; nothing was called."""


class EmptyResult(DenoiseError, RuntimeError):
    """Everything was dropped although passages came in."""
