"""A conversation in every spelling that LangChain takes is the same conversation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue

from langchain_denoise.convert.chain_values import extract_messages, extract_question

TEXTS = st.text(min_size=1)


@pytest.mark.parametrize(
    "write",
    [
        HumanMessage,
        lambda text: ("user", text),
        lambda text: ["human", text],
        lambda text: {"role": "user", "content": text},
        lambda text: {"type": "human", "content": text},
    ],
)
@settings(max_examples=20)
@given(TEXTS, TEXTS)
def test_the_question_is_found_in_any_spelling(write, first, last):
    for state in (
        {
            "messages": [
                write(first),
                AIMessage("Yes."),
                write(last),
            ]
        },
        {"messages": (write(first), write(last))},
        {"messages": write(last)},
        [write(first), write(last)],
    ):
        assert extract_question(state, None) == last


@given(st.lists(TEXTS, min_size=1))
def test_strings_in_a_state_are_the_users(texts):
    expected = [HumanMessage(text) for text in texts]
    assert extract_messages({"messages": texts}) == expected
    assert extract_messages({"messages": texts[0]}) == expected[:1]
    assert extract_messages(ChatPromptValue(messages=expected)) == expected
    assert extract_messages(texts) is None, "a list of texts may be anything"
