"""Groundedness passes what the evidence says, fails what it does not, and is unknown where nothing can be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import TEXT, judged, kinds, memory

from denoise_core import run
from denoise_core.augmenter.utilities import Groundedness
from denoise_core.support.abstention import abstains


@pytest.mark.parametrize(
    "candidate",
    [
        "1928",
        "1928 [2]",
        "The club was founded in 1928.",
        "It was founded in 1928 [2]. It has 5300 seats [2].",
        "The club doesn't play at home on Mondays.",
    ],
)
def test_what_the_evidence_says_passes(candidate):
    assert judged(candidate, "Bananas are yellow.", TEXT).outcome == "pass"


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ("1932", "date"),
        ("The club was founded in 1932.", "date"),
        ("The club was not founded in 1928.", "negation"),
        ("The club plays at home on Mondays.", "negation"),
        ("Lucy Liu", "name"),
        ("chocolate pudding", "unsupported"),
        ("The club was founded by Lucy Liu of Hollywood fame.", "name"),
        ("It was founded in 1928 [7].", "citation"),
        ("", "empty"),
        ("... [1]", "empty"),
        ("word " * 5000, "length"),
    ],
)
def test_what_the_evidence_does_not_say_fails_and_says_why(candidate, kind):
    verdict = judged(candidate, TEXT)
    assert verdict.outcome == "fail"
    assert kind in kinds(verdict)


@pytest.mark.parametrize(
    ("candidate", "texts", "kind"),
    [
        ("It was founded in 1928.", (), "empty_evidence"),
        ("It was founded in 1928.", ("", "  "), "empty_evidence"),
        ("I'm sorry, I don't have that information.", (TEXT,), "abstention"),
        ("unknown", (TEXT,), "abstention"),
        ("Yes.", (TEXT,), "bare"),
    ],
)
def test_what_cannot_be_said_is_unknown(candidate, texts, kind):
    verdict = judged(candidate, *texts)
    assert verdict.outcome == "unknown"
    assert kinds(verdict) == {kind}


def test_the_score_does_not_fall_with_more_passages():
    others = ["Rome lies on the Tiber and has seven hills."] * 4
    one, five = judged("It was founded in 1928.", TEXT), judged("It was founded in 1928.", TEXT, *others)
    assert one.score == five.score


def test_copying_a_passage_is_no_answer():
    long = " ".join(f"The {n}th thing is a thing of its own kind." for n in range(30))
    assert kinds(judged(long, long)) == {"copy"}
    assert judged(long, long).outcome == "fail"
    assert run(Groundedness(copy_cap=1.0).assess(memory(long), long))[0].outcome == "pass"


def test_a_year_in_brackets_is_no_citation():
    assert judged("The club was founded in [1928].", TEXT).outcome == "pass"


def test_a_passage_of_two_megabytes_and_a_word_of_one_are_judged():
    assert judged("It was founded in 1928.", TEXT + " filler" * 300_000).outcome == "pass"
    assert judged("It was founded in 1928.", "x" * 1_000_000).outcome == "fail"


def test_evidence_that_contradicts_itself_supports_neither():
    verdict = judged("The club was founded in 1928.", "The club was founded in 1932.", TEXT)
    assert (verdict.outcome, kinds(verdict)) == ("unknown", {"conflict"})


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_gets_a_verdict(candidate, texts):
    verdict = judged(candidate, *texts)
    assert verdict.outcome in ("pass", "fail", "unknown")
    assert verdict.outcome == "pass" or verdict.reasons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I do not have any information about that.", True),
        ("The passages do not mention his age.", True),
        ("There is not enough information to answer.", True),
        ("It cannot be determined from the evidence [1].", True),
        ("n/a", True),
        ("He does not know Paris.", False),
        ("He is unknown abroad.", False),
        ("1928", False),
        ("", False),
        ("The club was founded in 1928. The record does not state who founded it.", False),
    ],
)
def test_abstentions_are_told_from_answers(text, expected):
    assert abstains(text) is expected
