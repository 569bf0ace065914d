"""Repair takes away whole claims that do not hold, and nothing else; what is left is judged again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import by_words

from denoise_core import Passage
from denoise_core.augmenter import Augmenter, LoopLimits, Outcome
from denoise_core.augmenter.drafting import FixedText
from denoise_core.augmenter.drafting.repair import holding, repaired
from denoise_core.support import parse_answer
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict

TOWER = Passage(
    "The tower was completed in 1889 by Gustave Eiffel. It cost 3.2 million dollars. It stands in Paris.",
    "tower",
)


def failed(draft, *words):
    """The verdict on a draft in which these words are not supported."""
    found = [
        ClaimVerdict(w, draft.find(w), draft.find(w) + len(w), False, kind="date")
        for w in words
    ]
    return AnswerVerdict.of_claims(found)


def asked(draft, **limits):
    loop = Augmenter(judge=by_words(), limits=LoopLimits(**limits))
    return loop.answer(
        "When was the tower completed?", drafter=FixedText(draft), evidence=[TOWER]
    )


def test_what_holds_is_sent_and_what_does_not_is_taken_away():
    draft = "The tower was completed in 1889 [1]. Horses painted it purple."
    answer = asked(draft)
    assert (answer.outcome, answer.text) == (
        Outcome.SUPPORTED,
        "The tower was completed in 1889 [1].",
    )
    assert answer.best.repaired
    assert not any(a.repaired for a in asked(draft, repair=False).memory.attempts)


def test_no_value_is_put_in():
    answer = asked("The tower was completed in 1925.")
    assert (answer.outcome, answer.text) == (
        Outcome.UNSUPPORTED,
        "The tower was completed in 1925.",
    )


@pytest.mark.parametrize(
    ("draft", "left"),
    [
        (
            "It stands. It was built in 1925 [2]. All like it.",
            "It stands. All like it.",
        ),
        (
            "It stands. Built in 1925. It was sold then. All like it.",
            "It stands. All like it.",
        ),  # points back
        (
            "Known:\n\n- it stands\n- built in 1925 [1]\n\nAll like it.",
            "Known:\n\n- it stands\nAll like it.",
        ),
        (
            "Facts of its making:\n\n- built in 1925\n\nAll like it.",
            "All like it.",
        ),  # the line that announced it
        (
            "| a | b |\n|---|---|\n| x | in 1925 |\n| y | in 1889 |\n",
            "| a | b |\n|---|---|\n| y | in 1889 |",
        ),
        (
            "**Paris.** *The Tower* was built in 1925. All like it.",
            "**Paris.** All like it.",
        ),
        ("**It stands. Built in 1925.** All like it.", ""),  # half of what is bold
        ('{"place": "Paris", "year": "in 1925"}', ""),  # a field is part of a schema
        ("It was built in 1925.", ""),
    ],
)
def test_whole_claims_go_or_none(draft, left):
    assert repaired(draft, failed(draft, "in 1925")) == left


def test_quotations_titles_and_code_stay_whole():
    draft = "They sang *We Shall Overcome* in Selma. The march was built in 1925. Run:\n\n```sh\nmake all\n```"
    assert repaired(draft, failed(draft, "in 1925")) == (
        "They sang *We Shall Overcome* in Selma. Run:\n\n```sh\nmake all\n```"
    )


@pytest.mark.parametrize(
    "verdict",
    [AnswerVerdict(True, 0.9), AnswerVerdict(kind="date"), AnswerVerdict(False)],
)
def test_only_what_failed_is_repaired(verdict):
    assert repaired("It stands. It was built in 1925.", verdict) == ""


def test_what_holds_is_told_apart():
    draft = "It stands. Built in 1925."
    assert holding(draft, failed(draft, "in 1925")) == ("It stands.",)
    assert (
        holding(
            "It stands.", AnswerVerdict(answers_question=False, kind="off_question")
        )
        == ()
    )


PIECES = [
    *(
        "It stands. ",
        "**Bold** it is. ",
        "- an item\n",
        "\n\n",
        "| a | b |\n|---|---|\n| c | d |\n",
        "1. first\n",
    ),
    *("“He said so.” ", "`code` runs. ", "*A Title* won [1]. ", "```\nx = 1\n```\n"),
]
LINES = st.sampled_from(PIECES)


@given(st.lists(LINES, max_size=8).map("".join), st.data())
def test_what_is_left_was_there_before(draft, data):
    claims = parse_answer(draft).claims
    if not claims:
        return
    claim = data.draw(st.sampled_from(claims))
    left = repaired(
        draft,
        AnswerVerdict.of_claims(
            [ClaimVerdict("", claim.start, claim.end, False, kind="date")]
        ),
    )
    rest = iter(draft)
    assert all(c in rest for c in left)  # in the same order, nothing put in
    before = [p.text for p in claims]
    assert all(p.text in before for p in parse_answer(left).claims)
