"""The checker: what it passes and stops, one test for each kind of error that was met, and laws."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.support import Check, check
from denoise_core.support.citing import cited
from denoise_core.text.facts.kinds.names import same_name
from denoise_core.types import Span

TOWER = Passage(
    "The tower was completed in 1889 by Siobhán O'Brien and Jean-Luc Picard. It cost 3.2 million dollars and is "
    "21,196 km from Lima. Lunch comes from McDonald's. Twenty-one lifts run since July 4th, 1890.",
    "tower",
)
BRIDGE = Passage("The bridge is 8,849 metres long. Its sales increased last year.", "bridge")
BOTH = (TOWER, BRIDGE)


def said(answer, question="", passages=BOTH, **options):
    return check(question, answer, passages, **options)


@pytest.mark.parametrize(
    "answer",
    [
        "It was completed by Siobhán O’Brien.",
        "O'Brien",
        "Jean-Luc Picard completed the tower.",
        "Lunch comes from McDonald's.",
        "Yes, it was completed in 1889.",
        "1. The tower was completed in 1889.\n2. Lunch comes from McDonald's.",
        "Sure! The tower was completed in **1889**. I hope this helps!",
        "According to the passages, the tower was completed in 1889.",
        "21 lifts run.",
        "Lifts run since 4 July 1890.",
        "It cost 3,200,000 dollars.",
        "It cost $3.2 million.",
        "It is over 20,000 km from Lima.",
        "The tower was completed in 1889 [1].",
        "The tower was completed in 1889 [tower].",
        "The tower was completed in 1889 [1]; the bridge is 8849 metres long [2].",
        "Sales of the bridge went up: they rose last year.",
    ],
)
def test_what_the_passages_say_passes(answer):
    found = said(answer)
    assert found.passed, found


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("It cost $3.2 billion.", "number"),
        ("The tower was completed in 1890.", None),
        ("The tower is less than 20,000 km from Lima.", "number"),
        ("The tower is 8849 metres long.", None),
        ("Sales of the bridge decreased last year.", "direction"),
        ("The tower was not completed in 1889.", "direction"),
        ("Lunch does not come from McDonald's.", "negation"),
        ("The tower was completed in 1889 [2].", "citation"),
        ("The tower was completed in 1889 [7].", "citation"),
        ("The tower was completed by Otto Brenner.", "name"),
        ("Luc Picard", "name"),
        ("The tower was completed in 1889. It is painted purple and smells of coffee.", "unsupported"),
    ],
)
def test_what_they_do_not_say_fails_and_names_the_difference(answer, kind):
    found = said(answer)
    assert found.supported is False, found
    assert kind is None or found.kind == kind
    assert found.reason


def test_years_of_two_events_swapped():
    source = [Passage("The school was founded in 1903. In 1930 it moved to the market.", "p")]
    assert said("It was founded in 1903 and it moved in 1930.", passages=source).passed
    assert not said("It was founded in 1930 and it moved in 1903.", passages=source).passed


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("", "empty"), ("…", "empty"), ("[1]", "empty"), ("Yes.", "bare"), ("I don't know.", "abstention"),
     ("When was the tower completed?", "question"), ("x" * 30_000, "length")],
)  # fmt: skip
def test_an_answer_that_says_nothing_never_passes_and_has_a_reason(answer, kind):
    found = said(answer, "When was the tower completed?")
    assert not found.passed
    assert (found.kind, bool(found.reason)) == (kind, True)


def test_bad_evidence_has_an_outcome_and_a_reason():
    assert said("It was 1889.", passages=()).kind == "empty_evidence"
    assert said("It was 1889.", passages=(Passage("  ", "p"),)).kind == "empty_evidence"
    other = Passage("The tower was completed in 1925.", "other")
    found = said("The tower was completed in 1889.", passages=(TOWER, other))
    assert (found.supported, found.kind) == (None, "conflict")
    foreign = said("La biblioteca está cerrada los lunes por la mañana.", passages=BOTH)
    assert (foreign.supported, foreign.kind) == (None, "language")


def test_headers_and_titles_are_evidence():
    text = "It has 412 beds."
    for passage in (
        Passage(text, "p", header="Eastside hospital"),
        Passage(text, "p", metadata={"title": "Eastside hospital"}),
    ):
        assert said("Eastside hospital has 412 beds.", passages=[passage]).passed
    assert not said(
        "The Westside hospital has 412 beds.", passages=[Passage(text, "p", header="Eastside hospital")]
    ).passed


def test_a_question_that_asks_when_is_not_answered_by_a_place():
    found = said("The tower is far from Lima.", "When was the tower completed?")
    assert found.answers is False
    assert not found.passed


class Fixed:
    """A reader that finds every candidate alike."""

    def __init__(self, own, holds=0.0):
        self.own, self.holds = own, holds

    def fits(self, query, candidates, passages):
        return [self for _ in candidates]


@pytest.mark.parametrize(("own", "answers"), [(-1.0, True), (-50.0, False), (-math.inf, None), (math.nan, None)])
def test_a_reader_vetoes_and_never_saves(own, answers):
    question = "Who completed the tower?"
    found = said("Siobhán O'Brien", question, reader=Fixed(own))
    assert found.answers is answers
    assert found.supported is True
    assert said("Otto Brenner", question, reader=Fixed(own)).passed is False
    assert found.score <= said("Siobhán O'Brien", question).score


def test_a_reader_of_english_does_not_judge_other_languages():
    passages = [Passage("Die Brücke wurde 1889 von Otto Brenner gebaut.", "p")]
    assert said(
        "Otto Brenner hat die Brücke gebaut.", "Wer hat die Brücke gebaut?", passages, reader=Fixed(-99.0)
    ).passed


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: check("q", None, BOTH),
        lambda: check("q", "a", "text"),
        lambda: check("q", "a", ["text"]),
        lambda: check("q", "a", BOTH, coverage=7),
    ],
)
def test_slips_raise_and_say_what_to_pass(wrong):
    with pytest.raises(InputError, match="expected"):
        wrong()


def test_brackets_that_cite_nothing():
    passages = [Passage("x", "p1"), Passage("y", "p2")]
    assert cited("`pip install .[dev]` and `a[1]` [see note] [2019]", passages) == []
    (one,) = cited("So it is [p1, p2].", passages)
    assert one.ids == ("p1", "p2")
    (two,) = cited("So it is [1-2].", passages)
    assert two.ids == ("p1", "p2")


WORDS = st.sampled_from(
    [
        "The",
        "tower",
        "was",
        "not",
        "1889",
        "$3.2",
        "million",
        "O'Brien",
        ".",
        "\n-",
        "[1]",
        "**",
        "Yes,",
        "?",
        "小",
        "塔",
    ]
)


def test_a_name_of_particles_alone_is_a_name():
    """It left no words to compare: an IndexError."""
    assert not same_name("mo s", ["da"])
    assert same_name("da", ["da"])
    assert same_name("la", ["de la"])
    passage = Passage("DA\x00GOLIA", "p", header="DR.3:45 P.M.\x00MASSIM1,000O İSTA…NZIONE")
    assert not check('of Goliath" of "[2, work? David', "Mo S", [passage]).passed


PIECES = st.sampled_from(
    [*"ADESYU ,.-'’()[]%$°½²٣①…—\n\x00\u200b\u202e\u0301\ud83dİßﬁ塔米", "Al", "La", "DA", "Della", "Van", "Mo",
     "Tower", "tower", "1889", "1,000", "3:45 p.m.", "12/31/1999", "XIV", "not", "no", "[1]", "[2, 3]", "half",
     "Dr.", "St.", "P.M.", "May", "der"]
)  # fmt: skip
ODD = st.lists(PIECES, max_size=14).map(" ".join) | st.lists(PIECES, max_size=14).map("".join)


@settings(deadline=None, max_examples=150)
@given(ODD, ODD, st.lists(st.tuples(ODD, ODD), max_size=3))
def test_any_text_is_checked(question, answer, texts):
    passages = [Passage(text, str(n), header=header) for n, (text, header) in enumerate(texts)]
    found = check(question, answer, passages)
    assert 0.0 <= found.score <= 1.0
    assert found.passed or found.reason


@settings(deadline=None)
@given(st.lists(WORDS, max_size=25).map(" ".join), st.lists(WORDS, max_size=40).map(" ".join))
def test_laws_of_any_check(answer, text):
    passages = [Passage(text, "p"), TOWER]
    found = check("When was it?", answer, passages)
    assert isinstance(found, Check)
    assert 0.0 <= found.score <= 1.0
    assert found.passed or found.reason
    texts = {p.id: p.text for p in passages}
    for claim in found.claims:
        assert 0 <= claim.start < claim.end <= len(answer)
        assert not (claim.supported and claim.differences)
        for span in claim.evidence:
            assert isinstance(span, Span)
            assert 0 <= span.start < span.end <= len(texts[span.passage_id])
        for difference in claim.differences:
            assert 0 <= difference.start < difference.end <= len(answer)
    assert found == check("When was it?", answer, passages)
    assert found.as_json()["supported"] is found.supported


def test_evidence_may_be_long_and_its_order_does_not_matter():
    filler = [Passage("Rome lies on the Tiber and has seven hills. " * 40, f"f{n}") for n in range(100)]
    answer = "The tower was completed in 1889."
    one, two = said(answer, passages=(TOWER, *filler)), said(answer, passages=(*filler, TOWER))
    assert one.passed
    assert (one.claims[0].evidence, one.score) == (two.claims[0].evidence, two.score)
