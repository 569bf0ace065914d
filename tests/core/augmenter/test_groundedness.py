"""Groundedness passes what its judge finds, fails what differs, and is unknown where nothing can be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import TEXT, judged, kinds, memory

from denoise_core import run
from denoise_core.augmenter.utilities import Groundedness
from denoise_core.support.abstention import declined
from denoise_core.support.hold import Words


def words(candidate, *texts, question="When was the club founded?"):
    """What words alone say."""
    return run(Groundedness(Words()).assess(memory(*texts, question=question), candidate))[0]


@pytest.mark.parametrize("candidate", ["1928", "The club was founded in 1928 [1].", "It has 5300 seats."])
def test_what_the_judge_finds_passes_and_words_alone_never_say_so(candidate):
    assert judged(candidate, TEXT).outcome == "pass"
    alone = words(candidate, TEXT)
    assert alone.outcome == "unknown"
    assert "judge=" in alone.reasons[0].text


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ("The club was founded in 1932.", "date"),
        ("It was founded in 1928 [7].", "citation"),
        ("", "empty"),
        ("... [1]", "empty"),
        ("word " * 5000, "length"),
    ],
)
def test_what_differs_fails_and_says_why_without_any_model(candidate, kind):
    verdict = words(candidate, TEXT)
    assert verdict.outcome == "fail"
    assert kind in kinds(verdict)


def test_a_reason_says_where_its_claim_stands():
    (reason,) = words("It plays there. The club was founded in 1932.", TEXT).reasons
    assert reason.place == (16, 45)


@pytest.mark.parametrize(
    ("candidate", "texts", "kind"),
    [
        ("It was founded in 1928.", (), "empty_evidence"),
        ("It was founded in 1928.", ("", "  "), "empty_evidence"),
        ("I'm sorry, I don't have that information.", (TEXT,), "abstention"),
        ("unknown", (TEXT,), "abstention"),
        ('{"answered": false, "nearest": "its seats"}', (TEXT,), "abstention"),
    ],
)
def test_what_cannot_be_said_is_unknown(candidate, texts, kind):
    verdict = words(candidate, *texts)
    assert verdict.outcome == "unknown"
    assert kinds(verdict) == {kind}


def test_what_claims_nothing_is_not_judged():
    for candidate in ("Hello! How can I help you today?", "Which club do you mean?"):
        verdict = words(candidate, TEXT)
        assert (verdict.outcome, kinds(verdict)) == ("unknown", {"unjudged"})


def test_copying_a_passage_is_no_answer():
    long = " ".join(f"The {n}th thing is a thing of its own kind." for n in range(30))
    assert kinds(judged(long, long)) == {"copy"}
    assert judged(long, long).outcome == "fail"


def test_a_year_in_brackets_is_no_citation():
    assert judged("The club was founded in [1928].", TEXT).outcome == "pass"


def test_a_passage_of_two_megabytes_and_a_word_of_one_are_judged():
    assert words("It was founded in 1932.", TEXT + " filler" * 300_000).outcome in ("fail", "unknown")
    assert words("It was founded in 1928.", "x" * 1_000_000).outcome == "unknown"


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_gets_a_verdict(candidate, texts):
    verdict = words(candidate, *texts)
    assert verdict.outcome in ("fail", "unknown")
    assert verdict.reasons


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ('{"answered": false, "nearest": "its height"}', "its height"),
        ('```json\n{"answered": false}\n```', ""),
        ('{"answer": null, "reason": "not there"}', ""),
        ("Unknown.", ""),
        ('{"answered": true, "answer": "1889"}', None),
        ("I do not know.", None),
        ("{not json", None),
    ],
)
def test_the_mark_of_a_draft_that_has_no_answer(text, nearest):
    found = declined(text)
    assert (found.nearest if found else None) == nearest
