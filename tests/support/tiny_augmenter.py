"""What tests of the loop share: three passages, a question one of them answers, and loops over them."""

import pytest
from augmenter_doubles import check_loop, scripted

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.testing import ListRetriever


@pytest.fixture(scope="session")
def passages():
    return (
        Passage(
            "The Eiffel Tower in Paris was completed in 1889.",
            "eiffel",
            metadata={"title": "Eiffel Tower"},
        ),
        Passage("Rome is the capital of Italy.", "rome"),
        Passage("Bananas are a yellow fruit rich in potassium.", "banana"),
    )


@pytest.fixture(scope="session")
def question():
    return "When was the Eiffel Tower completed?"


@pytest.fixture
def build_loop(passages):
    """Build a loop over the passages; its model says these texts in turn, and the last one for ever."""

    def build(*replies, **options):
        return Augmenter(scripted(*replies), ListRetriever(passages), **options)

    return build


@pytest.fixture
def run_loop(build_loop, question):
    """The answer of such a loop to the question, sync and async, checked by `check_loop`."""

    def run(*replies, **options):
        return check_loop(lambda: build_loop(*replies, **options), question)

    return run
