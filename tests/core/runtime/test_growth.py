"""The counter of work tells linear from quadratic, and counts the same twice."""

from growth import operations, slope


def linear(size):
    return lambda: [str(n) for n in range(size)]


def quadratic(size):
    return lambda: [n for n in range(size) if sum(m == n for m in range(size)) > 1]


def test_linear_and_quadratic_work_are_told_apart():
    assert slope(linear, (500, 1000, 2000)) < 1.1
    assert slope(quadratic, (20, 40, 80)) > 1.8


def test_a_count_is_the_same_every_time():
    assert len({operations(linear(100)) for _ in range(5)}) == 1
