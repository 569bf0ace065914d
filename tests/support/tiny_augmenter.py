"""What tests of the loop share: three passages, a question one of them answers."""

import pytest

from denoise_core import Passage


@pytest.fixture(scope="session")
def passages() -> tuple[Passage, ...]:
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
def question() -> str:
    return "When was the Eiffel Tower completed?"
