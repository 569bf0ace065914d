"""The checker: what it passes and stops, one test for each kind of error that was met, and laws."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import replying

from denoise_core import InputError, Passage
from denoise_core.support import AnswerVerdict, check, evidence, parse_answer
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.citing import find_citations
from denoise_core.support.judging import ClaimVerdict, FlowJudge, Quote
from denoise_core.support.quoting import locate_difference
from denoise_core.text.facts import Difference
from denoise_core.text.facts.names import same_name
from denoise_core.types import Span

TOWER = Passage(
    "The tower was completed in 1889 by Siobhán O'Brien and Jean-Luc Picard. It cost 3.2 million dollars and is "
    "21,196 km from Lima. Lunch comes from McDonald's. Twenty-one lifts run since July 4th, 1890.",
    "tower",
)
BRIDGE = Passage(
    "The bridge is 8,849 metres long. Its sales increased last year.", "bridge"
)
BOTH = (TOWER, BRIDGE)


def said(answer, question="", passages=BOTH, **options):
    return check(question, answer, passages, **options)


@pytest.mark.parametrize(
    ("answer", "differing", "quoted"),
    [
        ("It was completed by Siobhán O’Brien.", [], "completed in 1889"),
        (
            "The tower was completed in **1889**. I hope this helps!",
            [],
            "completed in 1889",
        ),
        ("It cost $3.2 billion.", ["$3.2 billion"], "It cost"),
        ("The tower was completed in 1925.", ["1925"], "completed in 1889"),
        (
            "The tower was completed by Otto Brenner.",
            ["Otto Brenner"],
            "completed in 1889",
        ),
        ("The bridge is 8849 metres long [7].", [], "8,849 metres"),
    ],
)
def test_without_a_judge_evidence_and_differences_are_shown_and_nothing_is_decided(
    answer, differing, quoted
):
    verdict = said(answer)
    assert (verdict.kind, verdict.outcome) == ("no_judge", "unknown")
    assert "judge=" in verdict.reason
    claim = verdict.claims[0]
    assert [drop.claimed_text for drop in claim.differences] == differing
    assert any(quoted in q.text for q in claim.quotes)
    assert {q.relation for q in claim.quotes} == {"nearest"}
    assert (claim.reason == verdict.reason) == (not differing)


@pytest.mark.parametrize(
    ("answer", "differing", "reason"),
    [
        ("The bridge was completed in 1902.", ["1902"], "where the source has '1889'"),
        ("The lift was sold in 1902.", [], "no sentence of the evidence is close"),
        (
            "The lift was sold in 1977.",
            ["1977"],
            "no sentence of the evidence is close to it; date: '1977' is not in",
        ),
    ],
)
def test_without_a_judge_a_number_of_another_sentence_is_no_agreement(
    answer, differing, reason
):
    """The year of the strike made that of the bridge look right."""
    passages = [
        Passage("The bridge was completed in 1889.", "bridge"),
        Passage("A strike closed all ports of the north in 1902.", "strike"),
    ]
    (claim,) = check("", answer, passages).claims
    assert claim.supported is None
    assert [drop.claimed_text for drop in claim.differences] == differing
    assert reason in claim.reason
    assert bool(claim.quotes) == ("close" not in reason)


def test_all_of_the_evidence_is_parsed_once_for_all_claims():
    with patch.object(evidence, "parse_text", wraps=evidence.parse_text) as noted:
        check("", "Ann paid 5. Bo paid 6.", BOTH)
    noted.assert_called_once()


def test_a_difference_is_where_it_was_found():
    found = Difference("number", "5", "", 8, 9)
    assert locate_difference(found, "a 5, or 5", 10).start == 18


@pytest.mark.parametrize(("first", "shown"), [("France", "a"), ("The pool", "b")])
def test_of_equally_close_sentences_the_first_is_shown(first, shown):
    """Of those with what is new, the one with most of the claim: not a log's number."""
    passages = [Passage(f"{first} has 40.", "a"), Passage("France has 40.", "b")]
    (claim,) = check("How much for France?", "For France it is 40.", passages).claims
    assert claim.quotes[0].span.passage_id == shown


@pytest.mark.parametrize(
    ("cites", "instead"), [("[2]", "[1]"), ("[7]", ""), ("[9.1]", ""), ("[1.99]", "")]
)
def test_a_citation_that_does_not_bear_a_supported_claim_is_unsupported(cites, instead):
    verdict = said(f"The tower was completed in 1889 {cites}.", judge=Quoting())
    assert (verdict.supported, verdict.kind) == (False, "citation")
    assert verdict.claims[0].differences[-1].source_text == instead
    assert said("The tower was completed in 1889 [tower].", judge=Quoting()).passed


COLOURS = {"T": "The tower is red.", "B": "The bridge is blue.", "G": "It is green."}
COLOURED = [Passage(text, letter) for letter, text in COLOURS.items()]
SENTENCES = str.maketrans(COLOURS)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("[1] T\n\n[2] B", ""),
        ("**[1]** T\r\n\r\n**[2]**: B", ""),
        ("- [1] T\n- [2] B", ""),
        ("1. [1](http://t.x) T\n2. [2](http://b.x) B", ""),
        ("T\n[1]\n\nB [2]", ""),
        ("T\n[1] B", ""),
        ("T\n[1] B\n[2] G\n[3]", ""),
        ("- T\n  [1] B", ""),
        ("[2] T\n\n[2] B", "citation"),
        ("T\n\n[9] B", "citation"),
        ("T\n[2]\nB", "citation"),
        ("T\n[2]. B", "citation"),
        ("T\n\nB\n\n[9]", "citation"),
        ("T [2] B [2]", "citation"),
        ("- T [2] B [2]\n- G [3]", "citation"),
        ("T [2] B [3] G [1]", "citation"),
        ("T [2, 9] B", "citation"),
        ("T [2, 9] B [2]", "citation"),
    ],
)
def test_a_citation_that_begins_a_paragraph_or_an_item_is_of_what_follows(answer, kind):
    """`[2]` at the beginning of a paragraph refuted the right sentence above it."""
    judge = replying("1 supported 1.1\n2 supported 2.1\n3 supported 3.1\nanswers")
    verdict = check("So?", answer.translate(SENTENCES), COLOURED, judge=judge)
    assert (verdict.kind, verdict.passed) == (kind, not kind)


def test_two_citations_behind_a_sentence_are_both_of_it():
    passages = [Passage("The tower is red. It is tall.", "a"), Passage("So.", "b")]
    judge = replying("1 supported 1.1\n2 supported 1.2\nanswers")
    answer = "The tower is red. [1][2] It is tall. [1]"
    assert check("What is so?", answer, passages, judge=judge).passed


@pytest.mark.parametrize(
    "answer",
    [
        "As for [2] and [3], what do you mean?\n\nT",
        "## Of [2]\nT",
        "Do you mean [2]? T",
        "From [2]:\n\n- T",
        "| x [2] | y |\n|-|-|\n| Tower | red |",
    ],
)
def test_citations_in_text_before_the_first_claim_are_of_none(answer):
    """Judges by claims have no units for headings and questions."""
    verdict = check("So?", answer.translate(SENTENCES), COLOURED, judge=Quoting())
    assert [unit.kind for unit in verdict.units] == [""]


class Quoting(FlowJudge):
    """A judge that finds every claim in the first passage."""

    def flow(self, question, claims, passages):
        quote = Quote(Span(passages[0].id, 0, 9), passages[0].text[:9])
        return AnswerVerdict.of_claims(
            [ClaimVerdict(c.text, c.start, c.end, True, None, (quote,)) for c in claims]
        )
        yield


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
    assert (
        find_citations("`pip install .[dev]` and `a[1]` [see note] [2019]", passages)
        == []
    )
    (one,) = find_citations("So it is [p1, p2].", passages)
    assert one.ids == ("p1", "p2")
    (two,) = find_citations("So it is [1-2].", passages)
    assert two.ids == ("p1", "p2")


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nrow[9] = 1\n```\nIt is [2].",
        "<think>\nIs it [9]?\n</think>\nIt is [2].",
        '{"answer": "It is [2].", "sources": [9], "years": [8, 9]}',
        "It is `row[9]` [2].",
    ],
)
def test_code_reasoning_and_json_cite_nothing(answer):
    passages = [Passage("x", "p1"), Passage("It is.", "p2")]
    (citation,) = find_citations(answer, passages)
    assert (answer[citation.start : citation.end], citation.ids) == ("[2]", ("p2",))
    assert check("What?", answer, passages, judge=Quoting()).kind != "citation"


@pytest.mark.parametrize(
    ("bracket", "ids", "unknown"),
    [
        ("[1.1]", ("a",), ()),
        ("[2.0]", ("b",), ()),
        ("[1.1-1.2]", ("a",), ()),
        ("[1.2–2.1; 2]", ("a", "b"), ()),
        ("[9.1]", (), ("[9.1]",)),
        ("[1.99]", (), ("[1.99]",)),
        ("[1.2-1.3]", ("a",), ("[1.3]",)),
        ("[7.7]", ("7.7",), ()),
    ],
)
def test_labels_cite_the_passage_of_a_sentence_that_is_there(bracket, ids, unknown):
    passages = [
        Passage("It is red. It is high.", "a"),
        Passage("It is blue.", "b"),
        Passage("It is green.", "7.7"),
    ]
    (citation,) = find_citations(f"It is {bracket}.", passages)
    assert (citation.ids, citation.unknown) == (ids, unknown)
    assert remove_citations(f"It is {bracket}.") == "It is."


@pytest.mark.parametrize(
    "name",
    ["Table 5", "RFC 793", "Art. 6", "Table 9.1", "Table 5-2", "Fig. 10-3", "doc 5-3"],
)
def test_a_number_behind_a_word_is_no_citation_unless_it_was_handed_out(name):
    """`[RFC 793]` made a true sentence a wrong citation."""
    passages = [Passage("TCP resends what is lost.", "a"), Passage("Ports.", "b")]
    answer = f"TCP resends what is lost [{name}]."
    assert find_citations(answer, passages) == []
    verdict = check(
        "?",
        answer,
        passages,
        judge=lambda question, evidence, claim: True,
    )
    assert verdict.passed
    (unit,) = parse_answer(answer, ids=["a", "b"]).claims
    assert name in unit.text
    named = [*passages, Passage("Lost.", name)]
    (citation,) = find_citations(answer, named)
    assert (citation.ids, citation.unknown) == ((name,), ())


def test_a_number_behind_a_word_that_a_passage_has_is_its_own():
    """A passage's second table is not the second passage."""
    passages = [Passage("Table 2 lists the towers.", "a"), Passage("Ports.", "b")]
    assert find_citations("The towers are listed [Table 2].", passages) == []
    (citation,) = find_citations("The towers are listed [doc 2].", passages)
    assert citation.ids == ("b",)


NEAREST = '{"answer": null, "nearest": "It is blue."}'


@pytest.mark.parametrize(
    ("answer", "judge", "outcome", "kind"),
    [
        ('{"answer": null}', "abstains", "unknown", "abstention"),
        ('{"answer": null}', "off_question", "unknown", "abstention"),
        ('{"answer": null}', "Fine.", "unknown", "abstention"),
        ('{"answer": null}', "wrongly_abstains 1.1", "fail", "wrong_abstention"),
        (NEAREST, "2 contradicted 1.1\nabstains", "fail", "contradicted"),
        (NEAREST, "2 supported 1.1\nanswers", "pass", "abstention"),
        (NEAREST, lambda claim: False, "fail", "unsupported"),
        (NEAREST, lambda claim: True, "pass", "abstention"),
        ('{"answer": null}', lambda claim: False, "unknown", "abstention"),
        ('{"answer": null}', None, "unknown", "abstention"),
    ],
)
def test_json_that_declines_is_an_abstention_unless_it_is_refuted(
    answer, judge, outcome, kind
):
    """It was sent without a look, although the evidence answered, and its claims, too."""
    if isinstance(judge, str):
        judge = replying(f"1 no_claim\n{judge}")
    verdict = check(
        "What is it?",
        answer,
        [Passage("It is red.", "a")],
        judge=judge,
    )
    assert (verdict.outcome, verdict.kind) == (outcome, kind)


def test_a_field_that_the_question_asks_for_is_a_claim():
    order = '{"status": "shipped"}'
    assert parse_answer(order, "What is the status of my order?").claims
    assert not parse_answer(order, "Where is my order?").claims


def test_a_name_of_particles_alone_is_a_name():
    """It left no words to compare: an IndexError."""
    assert not same_name("mo s", "da")
    assert same_name("da", "da")
    assert same_name("la", "de la")
    passage = Passage(
        "DA\x00GOLIA", "p", header="DR.3:45 P.M.\x00MASSIM1,000O İSTA…NZIONE"
    )
    assert not check('of Goliath" of "[2, work? David', "Mo S", [passage]).passed


PIECES = st.sampled_from(
    [*"ADESYU ,.-'’()[]%$°½²٣①…—\n\x00\u200b\u202e\u0301\ud83dİßﬁ塔米", "Al", "La", "DA", "Della", "Van", "Mo",
     "Tower", "tower", "1889", "1,000", "3:45 p.m.", "12/31/1999", "XIV", "not", "no", "[1]", "[2, 3]", "half",
     "Dr.", "St.", "P.M.", "May", "der", "was", "$3.2", "million", "O'Brien", "\n-", "**", "Yes,", "?"]
)  # fmt: skip
ODD = st.lists(PIECES, max_size=14).map(" ".join) | st.lists(PIECES, max_size=14).map(
    "".join
)


@settings(max_examples=80)
@given(ODD, ODD, ODD, ODD)
def test_laws_of_any_check(question, answer, text, header):
    passages = [Passage(text, "p", header=header), TOWER]
    results = check(question, answer, passages)
    assert 0.0 <= results.score <= 1.0
    assert results.passed or results.reason
    texts = {p.id: p.text for p in passages}
    for claim in results.claims:
        assert 0 <= claim.start < claim.end <= len(answer)
        for quote in claim.quotes:
            span = quote.span
            assert texts[span.passage_id][span.start : span.end] == quote.text
        for difference in claim.differences:
            assert 0 <= difference.start < difference.end <= len(answer)
    assert results == check(question, answer, passages)
    assert results.as_json()["supported"] is results.supported


@pytest.mark.parametrize(
    "text",
    [
        "The hazard ratio was 1.5 (95% CI [1.2, 1.8]).",
        "Kappa was high, 95% CI [0.6, 0.9].",
        "Sales rose in May by [10%].",
        "The hall is red [12].",
    ],
)
def test_brackets_of_the_evidence_are_no_citations(text):
    judge = replying("1 supported 1.1\nanswers")
    assert check("What was it?", text, [Passage(text, "a")], judge=judge).passed
