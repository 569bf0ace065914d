"""A chain that gives a bare string: the string itself says what became of it."""

import copy

import pytest
from langchain_core.runnables import RunnableLambda

from langchain_denoise import verified

PASSAGE = "The tower was completed in 1889."


def chain(text):
    return RunnableLambda(lambda input_value: text)


def asked(text, **options):
    outer_setting = verified(
        chain(text), evidence=lambda input_value, chain_output: [PASSAGE], **options
    )
    return outer_setting.invoke("When was the tower completed?")


def test_a_string_is_a_string_and_carries_its_record():
    right, wrong = (
        asked("It was completed in 1889."),
        asked("It was completed in 1925."),
    )
    assert (type(right).__mro__[1], right) == (str, "It was completed in 1889.")
    assert (right.denoise["outcome"], wrong.denoise["outcome"]) == (
        "supported",
        "unsupported",
    )
    assert right.denoise["attempts"]
    for second_result in (copy.copy(right), copy.deepcopy(right)):
        assert (second_result, second_result.denoise) == (right, right.denoise)


@pytest.mark.parametrize(
    "written",
    ["<think>1925?</think>\nIt was completed in 1889.", " It was completed in 1889.\n"],
)
def test_an_answer_is_returned_exactly_as_the_model_wrote_it(written):
    answered = asked(written)
    assert answered == written
    assert answered.denoise["outcome"] == "supported"
