"""What holds for every test: no time limits inside property tests, one thread for each numeric library.

Times depend on what else the machine does, so no test may fail by them; and threads that wait for each
other on a busy machine make tiny models slower, not faster.

What tests of both adapters share as a fixture is here too: a server that speaks the OpenAI protocol.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# How long an example takes is the machine's: neither a deadline nor the check of slow data may fail a test.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")


@pytest.fixture(scope="session")
def tiny():
    """The model that ``server`` runs."""
    from openai_server import TinyModel  # imports torch, which most tests do without

    return TinyModel()


@pytest.fixture
def server(tiny):
    """A running `openai_server.Server`, without faults yet."""
    from openai_server import serving

    with serving(tiny) as running:
        yield running
