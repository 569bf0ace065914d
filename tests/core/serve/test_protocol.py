"""Requests are read strictly: what cannot be honoured is refused by name, and nothing breaks the reading."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core.local.generation.llm import Ended
from denoise_core.serve.protocol import Answering, Asked, Refused, read_request
from denoise_core.types import Message, Usage

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def read(**fields):
    return read_request(json.dumps({**ASKED, **fields}).encode(), "m", 100)


def test_a_request_is_read_whole():
    asked = read(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\ud83d"}]},
            {"role": "assistant", "content": ""},
        ],
        max_tokens=5,
        temperature=1,
        seed=-3,
        stop="\n",
        stream=True,
        stream_options={"include_usage": True},
        user="someone",
        n=1,
        top_p=1.0,
        tools=[],
        logprobs=False,
        response_format={"type": "text"},
    )
    messages = (Message("system", "be brief"), Message("user", "ab\ufffd"), Message("assistant", ""))
    assert asked == Asked(messages, 5, 1, -3, ("\n",), True, True)


def test_none_is_as_good_as_left_out_and_the_newer_limit_wins():
    nothing = dict.fromkeys(
        ("max_tokens", "temperature", "seed", "stop", "stream", "n", "tools", "stream_options")
    )
    assert read(**nothing) == read()
    assert read(max_tokens=5, max_completion_tokens=7).max_tokens == 7


def test_a_temperature_next_to_nothing_is_greedy():
    assert read(temperature=1e-40).temperature == 0
    assert read(temperature=0.01).temperature == 0.01


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("max_tokens", 0, "from 1 to 100"),
        ("max_tokens", 101, "from 1 to 100"),
        ("max_tokens", 1.5, "a whole number"),
        ("max_tokens", True, "a whole number"),
        ("max_completion_tokens", -1, "from 1 to 100"),
        ("temperature", 2.1, "from 0 to 2"),
        ("temperature", float("nan"), "from 0 to 2"),
        ("temperature", "0", "a number"),
        ("seed", 2**63, "a whole number"),
        ("stop", [""], "each of 1 to 200 characters"),
        ("stop", ["a"] * 9, "at most 8"),
        ("stop", {"a": 1}, "at most 8"),
        ("stream", 1, "true or false"),
        ("stream_options", [], "no object"),
        ("stream_options", {"include_usage": "yes"}, "true or false"),
        ("n", 2, "not supported"),
        ("n", True, "not supported"),
        ("top_p", 0.9, "not supported"),
        ("logprobs", True, "not supported"),
        ("logprobs", 0, "not supported"),
        ("tools", [{"type": "function"}], "not supported"),
        ("tool_choice", "required", "not supported"),
        ("response_format", {"type": "json_object"}, "not supported"),
        ("frequency_penalty", 0.5, "not supported"),
        ("messages", [], "one or more"),
        ("messages", "hi", "one or more"),
        ("messages", [{"role": "tool", "content": "x"}], "with a role"),
        ("messages", ["hi"], "with a role"),
        ("messages", [{"role": "user"}], "expected a text, got NoneType"),
        ("messages", [{"role": "user", "content": 3}], "expected a text, got int"),
        ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "type 'text'"),
        ("messages", [{"role": "assistant", "content": "x", "tool_calls": [{}]}], "tool calls"),
        ("best_of", 3, "not known"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(field, value, says):
    with pytest.raises(Refused, match=says) as refused:
        read(**{field: value})
    assert refused.value.status == 400
    told = refused.value.body()["error"]
    named = "include_usage" if isinstance(value, dict) and field == "stream_options" else field
    assert told["param"].startswith(named)
    assert named in told["message"]


def test_another_model_is_not_found_and_none_is_this_one():
    with pytest.raises(Refused, match="only 'm'") as refused:
        read(model="gpt-5")
    assert (refused.value.status, refused.value.code) == (404, "model_not_found")
    assert read(model=None) == read()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "messages",
    "stop",
    "seed",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "n",
    "tools",
    "other",
]


@given(st.binary(max_size=40) | st.just(b"[" * 100_000) | st.just(b'{"seed": 1' + b"0" * 9000 + b"}"))
def test_any_bytes_are_read_or_refused(body):
    with pytest.raises(Refused):
        read_request(body, "m", 100)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_fields_are_read_or_refused(fields):
    try:
        asked = read(**fields)
    except Refused as error:
        refused = error
    else:
        assert asked.messages
        assert asked.temperature is None or 0 <= asked.temperature <= 2
        return
    assert refused.status == 400
    assert len(refused.message) < 400


def test_the_reason_of_the_end_and_the_tokens_are_said():
    answering = Answering("id", 7, "m")
    cut = answering.whole("x", Ended(Usage(3, 2), cut=True))
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert answering.last(Ended(Usage(3, 2), cut=False))["choices"][0]["finish_reason"] == "stop"
