"""What a provider cites along with an answer's text counts as a bracket in it does."""

import pytest
from augmenter_doubles import Chain, check_loop, scripted

from denoise_core import Passage
from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.augmenter.drafting import DraftReply, RetrievedEvidence
from denoise_core.augmenter.drafting.conversation import cited_state
from denoise_core.support import check, check_quotations
from denoise_core.support.cited_units import CitationJudge
from denoise_core.support.citing import find_citations
from denoise_core.support.judging import ProviderCitation

PASSAGES = (
    Passage("The tower was completed in 1889. It is made of iron.", "tower"),
    Passage("Visitors pay 12 euros. The café opens at nine.", "prices"),
)
QUESTION = "When was the tower completed, and what does it cost?"
FIRST = "The tower was completed in 1889."
SECOND = "Visitors pay 12 euros."
ANSWER = f"{FIRST} {SECOND}"


def cite(words, cited_text, answer=ANSWER):
    start = answer.index(words)
    return ProviderCitation(start, start + len(words), cited_text)


def citing_drafter(*citations):
    """A drafter whose model's provider cites this with its drafts, one after the other."""
    found = (RetrievedEvidence(PASSAGES, QUESTION),)
    return Chain(*(DraftReply(ANSWER, retrieved=found, citations=c) for c in citations))


def labels(citations, answer=ANSWER):
    return [(c.labels, c.unknown) for c in find_citations(answer, PASSAGES, citations)]


@pytest.mark.parametrize(
    ("cited_text", "expected"),
    [
        (FIRST, ("1.1",)),
        ("completed in 1889", ("1.1",)),
        ("the tower WAS\n completed in “1889”", ("1.1",)),
        ("completed in 1889. It is made", ("1.1", "1.2")),
        (f"{SECOND} {FIRST}", ("2.1", "1.1")),
        ("The cafe\u0301 opens", ("2.2",)),
    ],
)
def test_a_cited_text_names_the_sentences_that_have_its_words(cited_text, expected):
    assert labels([cite(SECOND, cited_text)]) == [(expected, ())]


@pytest.mark.parametrize(
    "cited_text", ["completed in 1890", "It costs 12 pounds.", "mpleted in 1889"]
)
def test_a_cited_text_that_no_passage_has_is_unknown(cited_text):
    ((found, unknown),) = labels([cite(SECOND, cited_text)])
    assert (found, unknown) == ((), (f'"{cited_text}"',))


def test_a_passage_over_the_token_limit_may_have_had_what_is_cited():
    """The loop empties it; the draft, written from all of it, was called wrongly cited."""
    citations = (
        cite(FIRST, "It is made of iron."),
        cite(SECOND, "The café opens at nine."),
    )
    loop = Augmenter(
        judge=lambda question, evidence, claim: True,
        limits=LoopLimits(evidence_tokens=14),
    )
    answer = loop.answer(QUESTION, drafter=citing_drafter(citations))
    texts = [passage.text for passage in answer.memory.evidence]
    assert texts.count("") == 1
    assert answer.outcome == "supported"


def test_what_names_no_source_cites_nothing():
    """Google's models give the answer's own words as the cited text."""
    own_words = "It is the tallest of all."
    answer = f"{FIRST} {own_words}"
    citations = [
        cite(own_words, own_words, answer),
        cite(FIRST, " \n", answer),
        ProviderCitation(900, 990, FIRST),
        ProviderCitation(5, 3, FIRST),
    ]
    assert labels(citations, answer) == []


def test_it_counts_exactly_as_a_label_in_brackets():
    judge = CitationJudge(scripted("answers"))
    citations = [cite(FIRST, FIRST), cite(SECOND, SECOND)]
    provided = check(
        QUESTION,
        ANSWER,
        PASSAGES,
        judge=judge,
        citations=citations,
    )
    marked = f"{FIRST[:-1]} [1.1]. {SECOND[:-1]} [2.1]."
    inside = check(QUESTION, marked, PASSAGES, judge=judge)
    assert provided.passed
    assert [unit.quotes for unit in provided.units] == [u.quotes for u in inside.units]
    assert provided.calls == inside.calls == 1
    for verdict in (provided, inside):
        assert {q.status for q in verdict.quotations} == {"verbatim"}


@pytest.mark.parametrize(
    ("citation", "reason"),
    [
        (
            cite(SECOND, "pays 14 euros"),
            'it cites "pays 14 euros", which was not given',
        ),
        (cite(SECOND, FIRST), "it is in [2], not in the passage that it cites"),
    ],
)
def test_a_wrong_citation_refutes_its_sentence_alone(citation, reason):
    judge = CitationJudge(scripted("1 supported 1.1\n2 supported 2.1\nanswers"))
    verdict = check(
        QUESTION,
        ANSWER,
        PASSAGES,
        judge=judge,
        citations=[citation],
    )
    assert [unit.supported for unit in verdict.units] == [True, False]
    assert verdict.units[1].reason == reason
    assert verdict.units[1].differences[-1].kind == "citation"


def test_a_block_that_begins_with_the_end_of_a_sentence_does_not_cite_it():
    """Providers cut a text where a citation begins, before the point of a sentence."""
    citation = cite(f". {SECOND}", "no passage says so")
    verdict = check(
        QUESTION,
        ANSWER,
        PASSAGES,
        judge=lambda question, evidence, claim: True,
        citations=[citation],
    )
    assert [unit.supported for unit in verdict.units] == [True, False]


def test_quotations_show_a_cited_text_that_is_nowhere():
    words = "Visitors pay"
    quotations = check_quotations(
        ANSWER,
        PASSAGES,
        [cite(words, "not there")],
    )
    statuses = [(quotation.text, quotation.status) for quotation in quotations]
    assert statuses == [(words, "nowhere"), (SECOND, "verbatim")]


def test_the_loop_drafts_again_and_keeps_what_was_cited():
    judge = CitationJudge(scripted("1 supported 1.1\n2 supported 2.1\nanswers"))
    right = (cite(FIRST, FIRST), cite(SECOND, SECOND))
    wrong = (cite(SECOND, "Visitors pay 14 euros."),)
    loop = Augmenter(judge=judge)
    answer = check_loop(lambda: loop, QUESTION, lambda: citing_drafter(wrong, right))
    assert (answer.text, answer.outcome) == (ANSWER, "supported")
    assert [a.verdict.outcome for a in answer.memory.attempts] == ["fail", "pass"]
    assert "14 euros" in answer.memory.attempts[0].feedback
    assert answer.citations == PASSAGES
    assert [passage["id"] for passage in cited_state(answer)] == ["tower", "prices"]
