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
    spans = split_clauses(text)
    assert "".join(text[s.start : s.end] for s in spans) == text
    assert all(a.end == b.start and len(b) for a, b in itertools.pairwise(spans))


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


def test_a_single_question_with_commas_costs_no_call():
    llm = says("1")
    asked = "In which year was Marie Curie, who had come from Poland, given her second prize, and for what?"
    assert S2ADenoiser(llm).denoise(asked, TOWER).query == asked
    assert len(llm.received_messages) == 1


@pytest.mark.parametrize(
    ("asked", "shown"),
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
def test_one_rule_for_tags_and_else_as_it_is(asked, shown):
    assert open_tag_question(asked) == (shown or asked)
    assert S2ADenoiser(says("1")).denoise(asked, TOWER).query == (shown or asked)


@given(
    st.sampled_from(
        ["How tall is it? I think 200 m.", "I am 17. I guess so. Can I vote? Or not?"]
    ),
    st.data(),
)
def test_what_is_left_is_the_persons_own_clauses_in_order(asked, data):
    spans = split_clauses(asked)
    named = data.draw(st.sets(st.integers(1, len(spans)), min_size=1))
    llm = FunctionLLM(lambda m: ", ".join(map(str, sorted(named))))
    neutral = MessageDenoiser(llm).neutralize(asked)
    kept = [asked[spans[n - 1].start : spans[n - 1].end] for n in sorted(named)]
    if any("?" in text for text in kept):
        assert neutral.question == "".join(kept).strip()
        assert [d.span for d in neutral.dropped] == [
            s for n, s in enumerate(spans, 1) if n not in named
        ]
    else:
        assert (neutral.question, neutral.dropped) == (asked, ())
        assert "no part that asks" in neutral.fallback


@pytest.mark.parametrize(
    ("reply", "left"),
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
def test_both_lists_of_a_reply_are_held_together(reply, left):
    asked = "I think 200 m. How tall is it?"
    result = S2ADenoiser(
        FunctionLLM(lambda m: json.dumps(reply) if "wrote" in m[1].content else "1")
    ).denoise(asked, TOWER)
    assert result.query == (left or asked)
    assert (result.question_note is None) == (left is not None)


def test_unreadable_is_asked_once_more_and_then_left():
    asked = "I think 200 m. How tall is it?"
    llm = FunctionLLM(lambda m: "2" if len(m) > 2 else "The second one, I would say.")
    assert MessageDenoiser(llm).neutralize(asked).question == "How tall is it?"
    assert len(llm.received_messages) == 2
    with pytest.raises(UnparsableReply):
        MessageDenoiser(says("well"), on_error="raise").neutralize(asked)
    assert (
        asyncio.run(MessageDenoiser(says("well")).aneutralize(asked)).question == asked
    )


def test_the_model_sees_the_clauses_numbered():
    llm = says("2")
    MessageDenoiser(llm).neutralize("I think 200 m. How tall is it?")
    assert pieces(llm.received_messages[0]) == {
        1: "I think 200 m.\n",
        2: "How tall is it?",
    }


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("questions_*.jsonl")), ids=lambda p: p.stem
)
def test_no_wrong_question_is_proved_to_be_the_same(path):
    records = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    proved = [
        r
        for r in records
        if same_question(r["asked"], r["cleared"], language=r["language"]) is None
    ]
    assert [r for r in proved if not r["same"]] == []
    assert len(proved) >= 0.15 * len(records)
