"""The checker: what it passes and stops, one test for each kind of error that was met, and laws."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.support import Check, check
from denoise_core.support.citing import cited
from denoise_core.support.judging import FlowJudge, Judged, Judgement, Quote
from denoise_core.text.facts.names import same_name
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
        "Jean-Luc Picard completed the tower.",
        "1. The tower was completed in 1889.\n2. Lunch comes from McDonald's.",
        "Sure! The tower was completed in **1889**. I hope this helps!",
        "According to the passages, the tower was completed in 1889.",
        "Lifts run since 4 July 1890.",
        "It cost $3.2 million.",
        "It is over 20,000 km from Lima.",
        "The tower was completed in 1889 [1].",
        "The tower was completed in 1889 [tower].",
        "The tower was completed in 1889 [1]; the bridge is 8849 metres long [2].",
        "It is 137 years old in 2026.",
        "I have sent the mail to Bob.",
        "It cost $3.2 billion.",
        "Yes, it was completed in 1889.",
    ],
)
def test_words_alone_say_nothing_for_and_nothing_against(answer):
    found = said(answer)
    assert (found.supported, found.passed) == (None, False)
    assert found.reason


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("The tower was completed in 1925.", "date"),
        ("The tower was completed in 1889 [2].", "citation"),
        ("The tower was completed in 1889 [7].", "citation"),
    ],
)
def test_what_code_can_prove_is_unsupported_and_names_the_difference(answer, kind):
    found = said(answer)
    assert (found.supported, found.kind) == (False, kind)
    assert found.reason


def test_a_difference_that_decides_nothing_is_named():
    (claim,) = said("It cost $3.2 billion.").claims
    assert [(d.kind, d.said) for d in claim.differs] == [("number", "$3.2 billion")]
    assert claim.supported is None


def test_a_citation_says_which_passage_bears_the_claim():
    found = said("The tower was completed in 1889 [2].")
    assert found.claims[0].differs[-1].stands == "[1]"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("", "empty"), ("…", "empty"), ("[1]", "empty"), ("<think>1889?</think>", "empty"),
     ("I don't know.", "abstention"), ('{"answered": false}', "abstention"),
     ("When was the tower completed?", "question"), ("x" * 30_000, "length")],
)  # fmt: skip
def test_an_answer_that_says_nothing_never_passes_and_has_a_reason(answer, kind):
    found = said(answer, "When was the tower completed?")
    assert not found.passed
    assert (found.kind, bool(found.reason)) == (kind, True)


def test_what_claims_nothing_is_not_applicable_and_passes():
    for answer in ("Hello! How can I help you?", "Which tower do you mean?", "You're welcome."):
        found = said(answer, "Hi")
        assert (found.kind, found.passed, found.supported) == ("not_applicable", True, None)


def test_bad_evidence_has_an_outcome_and_a_reason():
    assert said("It was 1889.", passages=()).kind == "empty_evidence"
    assert said("It was 1889.", passages=(Passage("  ", "p"),)).kind == "empty_evidence"
    foreign = said("La biblioteca está cerrada los lunes por la mañana.", passages=BOTH)
    assert (foreign.supported, foreign.kind) == (None, "language")


class Quoting(FlowJudge):
    """A judge that finds every claim in the first passage, or says what it was made with."""

    def __init__(self, supported=True, kind="", abstains=None):
        self.said = supported, kind, abstains

    def flow(self, question, claims, passages):
        supported, kind, abstains = self.said
        quote = Quote(Span(passages[0].id, 0, 9), passages[0].text[:9])
        found = (Judged(c.text, c.start, c.end, supported, None, (quote,), kind=kind) for c in claims)
        return Judgement(tuple(found), None, abstains)
        yield


def test_a_judge_decides_and_is_named():
    found = said("The tower was completed in 1889.", judge=Quoting())
    assert (found.passed, found.score, found.judge) == (True, 1.0, "Quoting")
    assert said("It is purple.", judge=Quoting(False, "not_stated")).supported is False


def test_what_evidence_cannot_settle_is_unknown_whoever_judges():
    assert said("I have sent the mail to Bob.", judge=Quoting(False, "contradicted")).supported is False
    assert said("I have sent the mail to Bob.", judge=Quoting(False, "not_stated")).supported is None


def test_an_abstention_is_the_judge_s_word():
    law = "The law did not provide for elections; it set up a council."
    assert said(law, judge=Quoting(abstains=False)).passed
    assert said("Dazu schweigen die Texte.", judge=Quoting(None, abstains=True)).kind == "abstention"
    assert said("The passages do not mention his age.", judge=Quoting(True)).passed


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: check("q", None, BOTH),
        lambda: check("q", "a", "text"),
        lambda: check("q", "a", ["text"]),
        lambda: check("q", "a", BOTH, judge="gpt"),
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


def test_a_number_counts_what_was_shown_also_where_ids_are_numbers():
    """`[1]` named the second passage, whose id was "1", and not the first, which the prompt showed as 1."""
    passages = [Passage("x", "0"), Passage("y", "1")]
    assert [c.ids for c in cited("So it is [1]. And [2]. And [0].", passages)] == [("0",), ("1",), ("0",)]
    assert [c.ids for c in cited("So it is [Source 2] and 【1†a】.", passages)] == [("1",), ("0",)]


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
    assert not same_name("mo s", "da")
    assert same_name("da", "da")
    assert same_name("la", "de la")
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
        for quote in claim.quotes:
            span = quote.span
            assert texts[span.passage_id][span.start : span.end] == quote.text
        for difference in claim.differs:
            assert 0 <= difference.start < difference.end <= len(answer)
    assert found == check("When was it?", answer, passages)
    assert found.as_json()["supported"] is found.supported


def test_evidence_may_be_long_and_its_order_does_not_matter():
    filler = [Passage("Rome lies on the Tiber and has seven hills. " * 40, f"f{n}") for n in range(100)]
    answer = "The tower was completed in 1925."
    one, two = said(answer, passages=(TOWER, *filler)), said(answer, passages=(*filler, TOWER))
    assert one.supported is False
    assert (one.claims[0].quotes, one.score) == (two.claims[0].quotes, two.score)
