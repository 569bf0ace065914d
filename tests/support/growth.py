"""How time grows with size: a law about the program, told from the machine's noise by its processor time alone."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import numpy as np


def slope(call: Callable[[int], Callable[[], object]], sizes: Sequence[int], tries: int = 3) -> float:
    """Of time over size, on a log-log scale: 1 is linear, 2 quadratic.

    `call` gives for a size what is timed. Of each size the quickest of `tries` counts, in seconds of this
    thread's own processor time, with the collector of garbage at rest: a machine that is busy with other
    things, or that collects what another test left, does not make it steeper.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        taken = [quickest(call(size), tries) for size in sizes]
    finally:
        if collecting:
            gc.enable()
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def quickest(timed: Callable[[], object], tries: int) -> float:
    taken = []
    for _ in range(tries):
        began = time.thread_time()
        timed()
        taken.append(time.thread_time() - began)
    return max(min(taken), 1e-5)
