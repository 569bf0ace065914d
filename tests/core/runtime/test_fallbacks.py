import logging

import pytest
from faults import Faulty

from denoise_core import Guard, Passage
from denoise_core.runtime import fallbacks


@pytest.fixture(autouse=True)
def anew():
    fallbacks._counts.clear()
    yield
    fallbacks._counts.clear()


def fail_times(count, error):
    def fail(query, passages):
        raise error

    guard = Guard(Faulty(fail))
    for _ in range(count):
        guard.denoise("q", [Passage("x", id="a")])


def test_the_first_of_a_kind_and_powers_of_ten_are_warnings(caplog):
    """Without the error's text, which may be a user's."""
    with caplog.at_level(logging.WARNING, "denoise"):
        fail_times(100, TimeoutError("late, api_key=s3cr3t"))
    first, tenth, hundredth = caplog.messages
    assert (
        first
        == "Faulty: the input was kept as it is; TimeoutError. Further ones are counted."
    )
    assert "10 times" in tenth
    assert "100 times" in hundredth
    assert "s3cr3t" not in tenth + hundredth
    assert "late" not in tenth + hundredth
    assert fallbacks.fallback_counts() == {("Faulty", "TimeoutError"): 100}


def test_another_kind_is_heard_again(caplog):
    with caplog.at_level(logging.WARNING, "denoise"):
        for error in (TimeoutError("x"), ConnectionError("x"), TimeoutError("y")):
            fail_times(1, error)
    assert len(caplog.messages) == 2


def test_kinds_are_bounded():
    for n in range(3000):
        fallbacks.log_fallback(f"part {n}", "x", "kept")
    assert len(fallbacks.fallback_counts()) <= 1001
    assert sum(fallbacks.fallback_counts().values()) == 3000
