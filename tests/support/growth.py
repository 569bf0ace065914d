"""How work grows with size, counted and not timed: lines of Python run, and calls made into compiled code.

A count is the same on a busy machine, on one core and on a processor of another kind. What one call into compiled
code costs is not in it: `pumped_patterns` holds that for regular expressions, `benchmarks/stress.py` measures the
time of a service over texts of every form.
"""

import contextlib
import sys

import numpy as np


class Counter:
    """Operations of this thread so far."""

    def __init__(self):
        self.count = 0

    def trace(self, frame, event, arg):
        self.count += 1
        return self.trace

    def profile(self, frame, event, arg):
        if event == "c_call":
            self.count += 1


@contextlib.contextmanager
def counting():
    counter, before = Counter(), (sys.gettrace(), sys.getprofile())
    sys.setprofile(counter.profile)
    sys.settrace(counter.trace)
    try:
        yield counter
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])


def operations(call):
    with counting() as counter:
        call()
    return counter.count


def slope(call, sizes):
    """Of operations over size, on a log-log scale: 1 is linear, 2 quadratic.

    `call` gives what is counted for a size. The smallest size is run once beforehand: what is
    made at the first call and kept is no growth.
    """
    call(sizes[0])()
    return float(
        np.polyfit(
            np.log(sizes), np.log([operations(call(size)) for size in sizes]), 1
        )[0]
    )
