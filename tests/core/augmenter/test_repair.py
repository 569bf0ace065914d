"""Repair: the evidence's own value takes the place of one that differs, and is judged again; else it is cut."""

import pytest

from denoise_core import Passage
from denoise_core.augmenter import Augmenter, Groundedness, LoopLimits, Outcome
from denoise_core.augmenter.drafting import Written
from denoise_core.augmenter.drafting.repair import corrected
from denoise_core.augmenter.memory import Reason, Verdict
from denoise_core.augmenter.traces.plain import verdict_from_json, verdict_to_json

TOWER = Passage(
    "The tower was completed in 1889 by Gustave Eiffel. It cost 3.2 million dollars. It stands in Paris.", "tower"
)
BRIDGE = Passage("The bridge was finished in 1937 and is 1,280 metres long.", "bridge")


def asked(question, draft, **limits):
    loop = Augmenter(utility=Groundedness(), limits=LoopLimits(**limits))
    return loop.answer(question, drafter=Written(draft), evidence=[TOWER, BRIDGE])


@pytest.mark.parametrize(
    ("question", "draft", "said"),
    [
        ("When was the tower completed?", "The tower was completed in 1925.", "The tower was completed in 1889."),
        (
            "When was the tower completed?",
            "The tower was completed in 1925. It stands in Paris.",
            "The tower was completed in 1889. It stands in Paris.",
        ),
        (
            "Who completed the tower?",
            "The tower was completed by Ada Stone in 1889.",
            "The tower was completed by Gustave Eiffel in 1889.",
        ),
        ("How long is the bridge?", "The bridge is 1,300 metres long.", "The bridge is 1,280 metres long."),
    ],
)
def test_the_evidence_s_own_value_takes_the_place_of_another(question, draft, said):
    answer = asked(question, draft)
    assert (answer.outcome, answer.text) == (Outcome.SUPPORTED, said)
    assert answer.best.repaired
    assert [a.candidate for a in answer.memory.attempts] == [draft, said]
    assert not any(a.repaired for a in asked(question, draft, repair=False).memory.attempts)


@pytest.mark.parametrize(
    ("question", "draft"),
    [
        ("How long is the bridge?", "The bridge is 1,300 dollars long."),  # another unit: no value of its kind
        ("When was the tower completed?", "1925"),  # nothing supports the rest, for there is none
        ("When was the tower completed?", "The tower was completed in 1937."),  # said of something else
        ("When was the tower completed?", "The tower was completed in 1925 and not in 1925."),  # which is meant?
        ("Who sold the tower?", "Ada Stone sold the tower in 1925."),  # the rest does not hold either
    ],
)
def test_nothing_is_corrected_where_the_rest_does_not_hold(question, draft):
    answer = asked(question, draft)
    assert (answer.outcome, answer.text) == (Outcome.UNSUPPORTED, draft)
    assert not any(a.repaired for a in answer.memory.attempts)


def failed(*reasons):
    return Verdict("fail", 0.2, reasons)


WRONG = Reason("", "date", "It was completed in 1925", missing=("1925",), instead=(("1925", "1889"),))


def test_what_cannot_be_corrected_is_cut():
    other = Reason("", "unsupported", "The tower is haunted by a grey monk.")
    text = "The tower was sold. It was completed in 1925. The tower is haunted by a grey monk."
    assert corrected(text, failed(WRONG, other)) == "The tower was sold. It was completed in 1889."


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("It was completed in 1925.", Verdict("pass", 0.9)),
        ("It was completed in 1925.", Verdict("unknown", 0.0, (WRONG,))),
        ("It was completed in 1925. It was completed in 1925.", failed(WRONG)),
        ("It was sold in 1925.", failed(WRONG)),
        ("It was completed in 1925.", failed(Reason("", "date", "It was completed in 1925"))),
        ("", failed(WRONG)),
    ],
)
def test_nothing_is_corrected_without_a_value_and_one_place_for_it(text, verdict):
    assert corrected(text, verdict) == ""


def test_a_recording_keeps_what_stands_instead():
    assert verdict_from_json(verdict_to_json(failed(WRONG))) == failed(WRONG)
    old = verdict_to_json(failed(WRONG))
    del old["reasons"][0]["instead"]  # of a release that knew none
    assert verdict_from_json(old).reasons[0].instead == ()
