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


def guard_of(error):
    def fail(query, passages):
        raise error

    return Guard(Faulty(fail))


def test_the_first_of_a_kind_and_powers_of_ten_are_warnings(caplog):
    guard = guard_of(TimeoutError("late, api_key=s3cr3t"))
    with caplog.at_level(logging.WARNING, "denoise"):
        for _ in range(100):
            guard.denoise("q", [Passage("x", id="a")])
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 3
    assert (
        said[0]
        == "Faulty: the input was kept as it is; TimeoutError. Further ones are counted."
    )
    assert "10 times" in said[1]
    assert "100 times" in said[2]
    assert not [line for line in said if "s3cr3t" in line or "late" in line], (
        "its text may be a user's"
    )
    assert fallbacks.fallback_counts() == {("Faulty", "TimeoutError"): 100}


def test_another_kind_is_heard_again(caplog):
    with caplog.at_level(logging.WARNING, "denoise"):
        for error in (TimeoutError("x"), ConnectionError("x"), TimeoutError("y")):
            guard_of(error).denoise("q", [Passage("x", id="a")])
    assert len(caplog.records) == 2


def test_kinds_are_bounded():
    for n in range(3000):
        fallbacks.log_fallback(f"part {n}", "x", "kept")
    assert len(fallbacks.fallback_counts()) <= 1001
    assert sum(fallbacks.fallback_counts().values()) == 3000
