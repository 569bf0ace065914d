"""A batch of requests: each its own result, and what makes them be done one by one is heard of."""

import logging

from denoise_core import DenoiseResult, ENDDenoiser, Passage
from denoise_core.service.settings import Service
from denoise_core.service.work import ToDenoise, Worker
from denoise_core.testing import FunctionScorer


class TogetherFails(ENDDenoiser):
    def denoise_many(self, asked):
        raise ConnectionError("the batch was too much")


def test_a_batch_that_fails_as_one_is_done_one_by_one_and_said(caplog):
    denoiser = TogetherFails(FunctionScorer(lambda query, text: len(text)), keep=1)
    asked = [ToDenoise("q", (Passage("Long text.", "a"), Passage("Text.", "b"))) for _ in range(3)]
    with caplog.at_level(logging.WARNING, logger="denoise"):
        found = Worker(Service(denoiser))(asked)
    assert all(isinstance(f, DenoiseResult) and [p.id for p in f.passages] == ["a"] for f in found)
    assert "each was denoised by itself" in caplog.text
    assert "the batch was too much" in caplog.text
