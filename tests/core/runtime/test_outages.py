"""Outages of a scorer, a judge and a store: no call is stuck or lost, and all is well soon after the server is."""

import pytest
from outage_matrix import BOUNDARIES, run_outages

pytestmark = pytest.mark.enable_socket

CASES = 20


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_no_call_is_stuck_or_lost_and_it_is_soon_well(boundary):
    kinds, recoveries = run_outages(boundary, CASES)
    # The goal is 10 s on a quiet machine (benchmarks/stress.py); a busy one takes longer.
    assert max(recoveries) < 30, list(zip(kinds, recoveries))
