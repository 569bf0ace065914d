"""A person's words, cut into clauses of which a model names some: what is left is their own."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from augmenter_doubles import scripted
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage, UnparsableReply
from denoise_core.s2a import MessageDenoiser, Options, same_question
from denoise_core.s2a.question import (
    neutralize_question,
    open_tag_question,
    split_clauses,
)
from denoise_core.s2a.replies import ReplyRecord
from denoise_core.testing import FunctionLLM

from .fakes import call_count, cut_at, denoised, pieces, request, s2a, texts_at

DATA = Path(__file__).parents[2] / "data" / "s2a"
TOWER = [Passage("The tower is 330 m tall. I love it!", "a")]
GUESS = "I think 200 m. How tall is it?"


def clauses(text):
    return cut_at(text, split_clauses(text))


@given(st.text(max_size=300))
def test_clauses_tile_the_text(text):
    spans = split_clauses(text)
    assert "".join(clauses(text)) == text
    for span, next_span in itertools.pairwise(spans):
        assert span.end == next_span.start
    assert all(clauses(text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("How tall is it? I think 200 m.", 2),
        ("I really hope the answer is no, but does the policy cover flood damage?", 2),
        ("Who, besides Watson, discovered the structure of DNA?", 1),
        ("Is it legal to fly a drone over a park at night?", 1),
        ("我觉得是两百米。这座塔有多高？", 2),
        ("Qui a écrit Germinal ? Balzac, n'est-ce pas ?", 2),
        ("List the towers.", 1),
        ("wie hoch ist der turm", 1),
        ("埃菲尔铁塔有多高？", 1),
    ],
)
def test_where_a_clause_ends_and_one_alone_costs_no_call(text, parts):
    assert len(split_clauses(text)) == parts
    flow = neutralize_question(
        scripted("1"), text, Options(), on_error="keep", record=ReplyRecord()
    )
    first_call = next(flow, None)
    assert (first_call is not None) == (parts > 1)


@pytest.mark.parametrize(
    ("question", "opened"),
    [
        (
            "The capital of Kazakhstan is Almaty, correct?",
            "The capital of Kazakhstan is …?",
        ),
        ("What I was told is that the capital is Almaty, right?", None),
        ("The Delta pump is the one that failed in May, right?", None),
        ("The pump is broken, right?", None),
        ("Is Almaty the capital, yes?", None),
        ("The tower is 330 m tall and is in Paris, right?", None),
        ("How tall is it?", None),
        (
            "In which year was Marie Curie, who had come from Poland, given her second prize, and for what?",
            None,
        ),
    ],
)
def test_one_rule_for_tags_and_else_as_it_is_without_a_call(question, opened):
    llm, expected = scripted("1"), opened or question
    assert open_tag_question(question) == expected
    assert denoised(llm, TOWER, question).query == expected
    assert call_count(llm) == 1
    as_it_is = s2a(llm, neutralize_question=False)
    assert as_it_is.denoise(question, TOWER).query == question


@given(
    st.sampled_from(
        ["How tall is it? I think 200 m.", "I am 17. I guess so. Can I vote? Or not?"]
    ),
    st.data(),
)
def test_what_is_left_is_the_persons_own_clauses_in_order(text, data):
    spans = split_clauses(text)
    numbers = data.draw(st.sets(st.integers(1, len(spans)), min_size=1))
    reply = ", ".join(map(str, sorted(numbers)))
    neutral = MessageDenoiser(scripted(reply)).neutralize(text)
    kept, dropped = [], []
    for number, clause in enumerate(clauses(text), 1):
        (kept if number in numbers else dropped).append(clause)
    if "?" not in "".join(kept):
        assert neutral.question == text
        assert neutral.dropped == ()
        assert "no part that asks" in neutral.fallback
        return
    assert neutral.question == "".join(kept).strip()
    assert texts_at(text, neutral.dropped) == dropped


@pytest.mark.parametrize(
    ("requested", "opinion", "cleared"),
    [
        ([2], [1], "How tall is it?"),
        ([2], [], "How tall is it?"),  # no opinion named: the request decides
        ([1, 2], [], GUESS),
        ([2], [2, 1], None),
        ([7], [], None),
        ([], [1, 2], None),
    ],
)
def test_both_lists_of_a_reply_are_held_together(requested, opinion, cleared):
    lists = json.dumps({"request": requested, "opinion": opinion})
    llm = FunctionLLM(lambda messages: lists if "wrote" in request(messages) else "1")
    result = denoised(llm, TOWER, GUESS)
    assert result.query == (cleared or GUESS)
    assert (result.question_note is None) == (cleared is not None)


def test_unreadable_is_asked_once_more_and_then_left():
    llm = FunctionLLM(
        lambda messages: "2" if len(messages) > 2 else "The second one, I would say."
    )
    assert MessageDenoiser(llm).neutralize(GUESS).question == "How tall is it?"
    assert call_count(llm) == 2
    with pytest.raises(UnparsableReply):
        MessageDenoiser(scripted("well"), on_error="raise").neutralize(GUESS)
    left = asyncio.run(MessageDenoiser(scripted("well")).aneutralize(GUESS))
    assert left.question == GUESS


def test_the_model_sees_the_clauses_numbered():
    llm = scripted("2")
    MessageDenoiser(llm).neutralize(GUESS)
    shown = pieces(llm.received_messages[0])
    assert shown == {1: "I think 200 m.\n", 2: "How tall is it?"}


def test_the_minus_of_a_number_stays_with_the_question():
    text = "I believe that the answer must be four. -5 plus 3 times two is what number?"
    neutral = MessageDenoiser(scripted('{"request":[2],"opinion":[1]}')).neutralize(
        text
    )
    assert neutral.question == "-5 plus 3 times two is what number?"
    llm = scripted("2")
    assert MessageDenoiser(llm).neutralize("- I guess 5.\n- Why?").question == "Why?"


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("questions_*.jsonl")), ids=lambda path: path.stem
)
def test_no_wrong_question_is_proved_to_be_the_same(path):
    records = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
    proved = 0
    for record in records:
        asked, cleared, language = (
            record[name] for name in ("asked", "cleared", "language")
        )
        if same_question(asked, cleared, language=language) is None:
            assert record["same"], record
            proved += 1
    assert proved >= 0.15 * len(records)
