"""Texts that end a reply: what streams is what a whole reply is cut to, and the model stops there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_llm import passes, tiny_llm

from denoise_core import InputError, Message
from denoise_core.local.generation import stream_until_stop, truncate_at_stop

PIECES = st.lists(st.text("abc", max_size=4), max_size=12)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)
HELLO = [Message("user", "hello")]


@given(PIECES, STOPS)
def test_held_back_pieces_joined_are_the_cut_text(pieces, stops):
    out = list(stream_until_stop(pieces, stops))
    assert "".join(out) == truncate_at_stop("".join(pieces), stops)
    assert all(out)
    assert not any(stop in "".join(out) for stop in stops)


@given(PIECES)
def test_without_stops_nothing_is_held_back(pieces):
    assert list(stream_until_stop(pieces, [])) == [
        passage for passage in pieces if passage
    ]


@pytest.fixture(scope="module")
def llm():
    return tiny_llm()


def test_every_way_of_asking_stops_at_the_same_place(llm):
    full_run = llm.complete(HELLO).text
    stop = [full_run[5:8], "zzz"]
    stopping = llm.with_settings(stop=stop)
    forward_passes = passes(llm)
    reply_text = stopping.complete(HELLO)
    assert reply_text.text == truncate_at_stop(full_run, stop) != full_run
    assert (
        len(forward_passes)
        == reply_text.usage.output_tokens
        == len(reply_text.text) + 3
    )
    assert "".join(stopping.stream(HELLO)) == reply_text.text


def test_how_a_stream_ended_is_returned(llm):
    def end(stream):
        while True:
            try:
                next(stream)
            except StopIteration as ended:
                return ended.value

    full_run = llm.complete(HELLO)
    assert (end(llm.stream(HELLO)).usage, end(llm.stream(HELLO)).is_truncated) == (
        full_run.usage,
        True,
    )
    assert not end(
        llm.with_settings(stop=[full_run.text[-2:]]).stream(HELLO)
    ).is_truncated


def test_settings_are_the_copys_own_and_the_weights_are_shared(llm):
    other_reader = llm.with_settings(
        max_new_tokens=3, temperature=1, seed=5, stop=["x"]
    )
    assert (
        other_reader.max_new_tokens,
        other_reader.temperature,
        other_reader.seed,
        other_reader.stop,
    ) == (
        3,
        1.0,
        5,
        ("x",),
    )
    assert other_reader.model is llm.model
    assert (llm.max_new_tokens, llm.temperature, llm.seed, llm.stop) == (
        24,
        0.0,
        None,
        (),
    )
    for wrong in (
        {"max_new_tokens": 0},
        {"temperature": float("nan")},
        {"stop": "ab"},
        {"stop": [""]},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            llm.with_settings(**wrong)
