"""One running service of the default denoiser for all tests that only ask it."""

import pytest
from service_server import serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service


@pytest.fixture(scope="session")
def default_url():
    with serving(Service(default_denoiser())) as served_url:
        yield served_url
