"""Mistakes and failures; error text that is short and holds no secret."""

import pytest

from denoise_core import (
    BudgetExceeded,
    EmptyResult,
    InputError,
    MissingExtra,
    ProbeMismatch,
    UnparsableReply,
)
from denoise_core.errors import (
    MAX_ERROR_CHARS,
    ContractViolation,
    PromptTooLong,
    format_error,
    is_user_error,
)


class APIStatusError(Exception):
    def __init__(self, status_code=None, response=None):
        super().__init__("refused")
        self.status_code = status_code
        self.response = response


class AuthenticationError(Exception):
    pass


class PermissionDeniedError(Exception):
    pass


class Grpc(Exception):
    def __init__(self, name):
        self.name = name

    def code(self):
        return self


class Refusing(Exception):
    @property
    def status_code(self):
        raise RuntimeError("no status")


def caused(error, by):
    error.__cause__ = by
    return error


MISTAKES = (
    InputError,
    MissingExtra,
    ProbeMismatch,
    TypeError,
    AttributeError,
    NameError,
    ImportError,
    NotImplementedError,
    PermissionError,
    AuthenticationError,
    PermissionDeniedError,
)
FAILURES = (
    TimeoutError,
    ConnectionError,
    UnparsableReply,
    EmptyResult,
    ContractViolation,
    PromptTooLong,
    KeyError,
    ValueError,
    RuntimeError,
    Refusing,
)
LATE, REFUSED = TimeoutError("late"), AuthenticationError("x")


@pytest.mark.parametrize(
    "error",
    [
        *(kind("x") for kind in MISTAKES),
        APIStatusError(401),
        APIStatusError(403),
        APIStatusError(response={"status_code": 403}),
        Grpc("UNAUTHENTICATED"),
        caused(RuntimeError("the client gave up"), REFUSED),
        caused(RuntimeError("the client gave up"), MissingExtra("x")),
        ExceptionGroup("several", [LATE, REFUSED]),
    ],
)
def test_mistakes(error):
    assert is_user_error(error)


@pytest.mark.parametrize(
    "error",
    [
        *(kind("x") for kind in FAILURES),
        APIStatusError(500),
        APIStatusError(429),
        APIStatusError(True),
        BudgetExceeded("calls", 1, 1),
        Grpc("UNAVAILABLE"),
        caused(UnparsableReply("no JSON"), TypeError("x")),
        caused(TimeoutError("late"), REFUSED),
        ExceptionGroup("several", [LATE, ValueError("x")]),
    ],
)
def test_failures(error):
    assert not is_user_error(error)


def test_an_error_that_is_its_own_cause_ends():
    error = RuntimeError("x")
    other = caused(ValueError("y"), error)
    assert not is_user_error(caused(error, other))


def test_error_text_is_short_one_line_and_printable():
    line = format_error(ValueError("a\nb" * 100_000 + "\ud800"))
    assert len(line) <= MAX_ERROR_CHARS
    assert "\n" not in line
    line.encode()
    assert format_error(ValueError("\ud800")).encode() == b"ValueError: ?"
    assert format_error(ValueError()) == "ValueError"
    assert (
        format_error(ValueError("HTTP 400, api_key=s3cr3t&model=m"))
        == "ValueError: HTTP 400, api_key=***&model=m"
    )


def test_an_error_that_cannot_be_shown_is_said_all_the_same():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError("no")

    assert format_error(Broken()) == "Broken: (its message cannot be read)"


def http_response(status):
    httpx = pytest.importorskip("httpx")
    return httpx.Response(status, request=httpx.Request("POST", "http://host/v1"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 429, 500, 503])
def test_statuses_of_a_real_http_client(status):
    httpx = pytest.importorskip("httpx")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        http_response(status).raise_for_status()
    assert is_user_error(caught.value) == (status in (401, 403))


@pytest.mark.parametrize(
    "name",
    ["ConnectError", "ReadTimeout", "RemoteProtocolError"],
)
def test_transport_errors_of_a_real_http_client_are_failures(name):
    httpx = pytest.importorskip("httpx")
    assert not is_user_error(getattr(httpx, name)("x"))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("AuthenticationError", 401),
        ("PermissionDeniedError", 403),
        ("RateLimitError", 429),
        ("APIStatusError", 401),
        ("APIStatusError", 503),
    ],
)
def test_errors_of_a_real_model_client(name, status):
    openai = pytest.importorskip("openai")
    kind = getattr(openai, name)
    error = kind("refused", response=http_response(status), body=None)
    for raised in (error, caused(RuntimeError("the chain gave up"), error)):
        assert is_user_error(raised) == (status in (401, 403))


def test_transport_errors_of_a_real_model_client_are_failures():
    openai = pytest.importorskip("openai")
    for kind in (openai.APITimeoutError, openai.APIConnectionError):
        assert not is_user_error(kind(request=http_response(200).request))
