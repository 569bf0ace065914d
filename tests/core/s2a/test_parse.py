"""Parsing: tolerant of manners, strict about content, and never anything but a result or `UnparsableReply`."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import UnparsableReply
from denoise_core.s2a.replies import parse


@pytest.mark.parametrize(
    "reply",
    [
        "1, 3-5",
        "[1] [3] [4] [5]",
        "[1], [3]-[5]",
        "1,3,4,5.",
        "Sentences 1 and 3 to 5",
        "Keep: 1, 3–5",
        "<think>Perhaps 2? No, 9.</think>\n1, 3-5",
        "Perhaps 2, perhaps 7.</think>1, 3-5",
        "```\n1, 3-5\n```",
        "```json\n[1, 3, 4, 5]\n```",
        '{"keep": [1, "3-5"]}',
        "Sure! Here is what one needs:\n\n1, 3-5",
        "- 1\n- 3\n- 4\n- 5",
        "١، ٣-٥",
        "1、3〜5".replace("〜", "～"),
        "**1, 3-5**",
    ],
)
def test_numbers_are_read_in_many_manners(reply):
    assert parse.numbers(reply, 9).chosen == (1, 3, 4, 5)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "In 1984 there were 3 people, I think.",
        "As a language model I cannot do that.",
        "NONE of sentence 4",
        "NONE, 4",
        "keep 1 drop 2",
        "99",
        '{"keep": [1], "drop": [2]}',
        "[" * 100_000,
        "<think>1, 2",
        "²",
        "\x00",
    ],
)
def test_numbers_are_never_guessed(reply):
    with pytest.raises(UnparsableReply):
        parse.numbers(reply, 9)


def test_none_and_all():
    assert parse.numbers("NONE", 3).chosen == ()
    assert parse.numbers("[]", 3).chosen == ()
    assert parse.numbers("None.", 3).chosen == ()
    found = parse.numbers("DROP ALL", 3)
    assert (found.verb, found.chosen) == ("drop", (1, 2, 3))


def test_repeated_and_unknown_numbers_are_reported():
    found = parse.numbers("2, 2, 7-12, 99, 0", 9)
    assert found.chosen == (2, 7, 8, 9)
    assert found.repeated == (2,)
    assert found.unknown == ("7-12", "99", "0")


def test_a_range_backwards_is_the_range():
    assert parse.numbers("5-3", 9).chosen == (3, 4, 5)


def test_a_huge_reply_of_overlapping_ranges_is_no_problem():
    found = parse.numbers("1-999999999, " * 80_000, 10_000)
    assert len(found.chosen) == 10_000


@given(st.sets(st.integers(1, 60)), st.sampled_from([", ", " ", "\n", "; "]))
def test_any_set_of_numbers_survives_writing_and_reading(wanted, separator):
    reply = separator.join(map(str, sorted(wanted))) or "NONE"
    assert parse.numbers(reply, 60).chosen == tuple(sorted(wanted))


@given(st.text(), st.integers(0, 20))
def test_any_text_is_read_or_refused(reply, count):
    try:
        found = parse.numbers(reply, count)
    except UnparsableReply:
        return
    assert set(found.chosen) <= set(range(1, count + 1))
    assert list(found.chosen) == sorted(set(found.chosen))


@given(st.text())
def test_any_text_has_fields_or_is_refused(reply):
    for read in (parse.fields, parse.message):
        with contextlib.suppress(UnparsableReply):
            assert read(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Context: It is tall.\nQuestion: How tall?",
        "context: It is tall.\n\nquestion: How tall?",
        "**Context:** It is tall.\n**Question:** How tall?",
        "## Context:\nIt is tall.\n## Question:\nHow tall?",
        "Unbiased Context: It is tall.\nNeutral question: How tall?",
        "```\nContext: It is tall.\nQuestion: How tall?\n```",
        "<think>Context: wrong\nQuestion: wrong</think>\nContext: It is tall.\nQuestion: How tall?",
        json.dumps({"context": "It is tall.", "question": "How tall?"}),
        '```json\n{"Context": "It is tall.", "Question": "How tall?"}\n```',
    ],
)
def test_fields_are_read_in_many_manners(reply):
    assert parse.fields(reply) == parse.Fields("It is tall.", "How tall?")


def test_a_text_that_holds_questions_keeps_them():
    found = parse.fields("Context: Question: Is it open?\nAnswer: Yes.\nQuestion: When is it open?")
    assert found == parse.Fields("Question: Is it open?\nAnswer: Yes.", "When is it open?")


@pytest.mark.parametrize("nothing", ["NONE", "none.", "(none)", "", "N/A"])
def test_nothing_left(nothing):
    assert parse.fields(f"Context: {nothing}\nQuestion: Why?").context == ""


def test_missing_fields():
    assert parse.fields("Context: It is tall.").question is None
    for reply in ("Question: How tall?", "It is tall.", "", '{"question": "How tall?"}', '{"context": 3}'):
        with pytest.raises(UnparsableReply):
            parse.fields(reply)


@given(
    st.text(
        st.characters(exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029`<", exclude_categories=["Cs"])
    ),
)
def test_a_context_of_one_line_survives(line):
    found = parse.fields(f"Context: A {line} z\nQuestion: Why?")
    assert found.context == f"A {line} z"


def test_thinking_blocks_without_end_are_linear():
    assert parse.clean("<think>" * 100_000) == ""
    assert parse.clean("x</think>" * 50_000).startswith("x")
