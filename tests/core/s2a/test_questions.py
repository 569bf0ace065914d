"""A person's words, cut into clauses of which a model names some: what is left is their own."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage, UnparsableReply
from denoise_core.s2a import MessageDenoiser, Options, S2ADenoiser, same_question
from denoise_core.s2a.question import (
    neutralize_question,
    open_tag_question,
    split_clauses,
)
from denoise_core.testing import FunctionLLM

from .fakes import pieces, says

DATA = Path(__file__).parents[2] / "data" / "s2a"
TOWER = [Passage("The tower is 330 m tall. I love it!", "a")]


@given(st.text(max_size=300))
def test_clauses_tile_the_text(text):
    clause_spans = split_clauses(text)
    assert (
        "".join(text[one_span.start : one_span.end] for one_span in clause_spans)
        == text
    )
    assert all(a.end == b.start and len(b) for a, b in itertools.pairwise(clause_spans))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("How tall is it? I think 200 m.", 2),
        ("I really hope the answer is no, but does the policy cover flood damage?", 2),
        ("Who, besides Watson, discovered the structure of DNA?", 1),
        ("Is it legal to fly a drone over a park at night?", 1),
        ("我觉得是两百米。这座塔有多高？", 2),
        ("Qui a écrit Germinal ? Balzac, n'est-ce pas ?", 2),
    ],
)
def test_where_a_clause_ends(text, parts):
    assert len(split_clauses(text)) == parts
    first_call = next(
        neutralize_question(says("1"), text, Options(), on_error="keep"), None
    )
    assert (first_call is not None) == (parts > 1)


@pytest.mark.parametrize(
    ("model_calls", "shown_pieces"),
    [
        (
            "The capital of Kazakhstan is Almaty, correct?",
            "The capital of Kazakhstan is …?",
        ),
        ("What I was told is that the capital is Almaty, right?", None),
        ("Is Almaty the capital, yes?", None),
        ("The tower is 330 m tall and is in Paris, right?", None),
        ("How tall is it?", None),
    ],
)
def test_one_rule_for_tags_and_else_as_it_is(model_calls, shown_pieces):
    assert open_tag_question(model_calls) == (shown_pieces or model_calls)
    assert S2ADenoiser(says("1")).denoise(model_calls, TOWER).query == (
        shown_pieces or model_calls
    )


@given(
    st.sampled_from(
        ["How tall is it? I think 200 m.", "I am 17. I guess so. Can I vote? Or not?"]
    ),
    st.data(),
)
def test_what_is_left_is_the_persons_own_clauses_in_order(model_calls, data):
    clause_spans = split_clauses(model_calls)
    named_numbers = data.draw(st.sets(st.integers(1, len(clause_spans)), min_size=1))
    fake_llm = FunctionLLM(
        lambda sent_messages: ", ".join(map(str, sorted(named_numbers)))
    )
    neutral_message = MessageDenoiser(fake_llm).neutralize(model_calls)
    kept_pieces = [
        model_calls[clause_spans[position - 1].start : clause_spans[position - 1].end]
        for position in sorted(named_numbers)
    ]
    if any("?" in text for text in kept_pieces):
        assert neutral_message.question == "".join(kept_pieces).strip()
        assert [one_drop.span for one_drop in neutral_message.dropped] == [
            one_span
            for position, one_span in enumerate(clause_spans, 1)
            if position not in named_numbers
        ]
    else:
        assert (neutral_message.question, neutral_message.dropped) == (model_calls, ())
        assert "no part that asks" in neutral_message.fallback


@pytest.mark.parametrize(
    ("model_reply", "remaining_text"),
    [
        ({"request": [2], "opinion": [1]}, "How tall is it?"),
        (
            {"request": [2], "opinion": []},
            "How tall is it?",
        ),  # no opinion named: the request decides
        ({"request": [1, 2], "opinion": []}, "I think 200 m. How tall is it?"),
        ({"request": [2], "opinion": [2, 1]}, None),
        ({"request": [7], "opinion": []}, None),
        ({"request": [], "opinion": [1, 2]}, None),
    ],
)
def test_both_lists_of_a_reply_are_held_together(model_reply, remaining_text):
    model_calls = "I think 200 m. How tall is it?"
    s2a_result = S2ADenoiser(
        FunctionLLM(
            lambda sent_messages: (
                json.dumps(model_reply) if "wrote" in sent_messages[1].content else "1"
            )
        )
    ).denoise(model_calls, TOWER)
    assert s2a_result.query == (remaining_text or model_calls)
    assert (s2a_result.question_note is None) == (remaining_text is not None)


def test_unreadable_is_asked_once_more_and_then_left():
    model_calls = "I think 200 m. How tall is it?"
    fake_llm = FunctionLLM(
        lambda sent_messages: (
            "2" if len(sent_messages) > 2 else "The second one, I would say."
        )
    )
    assert (
        MessageDenoiser(fake_llm).neutralize(model_calls).question == "How tall is it?"
    )
    assert len(fake_llm.received_messages) == 2
    with pytest.raises(UnparsableReply):
        MessageDenoiser(says("well"), on_error="raise").neutralize(model_calls)
    assert (
        asyncio.run(MessageDenoiser(says("well")).aneutralize(model_calls)).question
        == model_calls
    )


def test_the_model_sees_the_clauses_numbered():
    fake_llm = says("2")
    MessageDenoiser(fake_llm).neutralize("I think 200 m. How tall is it?")
    assert pieces(fake_llm.received_messages[0]) == {
        1: "I think 200 m.\n",
        2: "How tall is it?",
    }


@pytest.mark.parametrize(
    "path",
    sorted(DATA.glob("questions_*.jsonl")),
    ids=lambda one_passage: one_passage.stem,
)
def test_no_wrong_question_is_proved_to_be_the_same(path):
    records = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    proved = [
        one_record
        for one_record in records
        if same_question(
            one_record["asked"], one_record["cleared"], language=one_record["language"]
        )
        is None
    ]
    assert [one_record for one_record in proved if not one_record["same"]] == []
    assert len(proved) >= 0.15 * len(records)
