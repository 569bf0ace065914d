"""A search for what only a rejected draft says brings no evidence, and neither do its own words said back."""

import pytest

from denoise_core import Passage
from denoise_core.augmenter.drafting.contamination import drop_contaminated_searches
from denoise_core.augmenter.drafting.conversation import conversation_evidence
from denoise_core.augmenter.drafting.drafter import RetrievedEvidence

QUESTION = "When was the tower finished?"
REJECTED = "Otto Brenner finished it in 1912."


def search(query, text="The archive is open on Mondays."):
    return RetrievedEvidence((Passage(text, query or "unknown"),), query)


def counted(results, question=QUESTION):
    """Of these searches those that count, once the draft was rejected."""
    return drop_contaminated_searches(question, results, [REJECTED])


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("tower finished", True),
        ("Brenner 1912", False),
        ("tower Brenner", False),
        (None, True),
    ],
)
def test_a_search_for_a_rejected_drafts_own_words_is_left_out(query, counts):
    results = (search(query),)
    assert counted(results) == (results if counts else ())
    assert drop_contaminated_searches(QUESTION, results, []) == results


def test_what_an_earlier_search_brought_may_be_searched_for():
    first = search("tower finished", "Otto Brenner was its builder.")
    second = search("Otto Brenner tower")
    assert counted((first, second)) == (first, second)
    assert counted((second,)) == ()
    suspect = search("Brenner 1912", "Otto Brenner was its builder.")
    assert counted((suspect, second)) == ()


def test_the_users_own_words_may_be_searched_for():
    results = (search("Brenner 1912"),)
    assert counted(results, f"{QUESTION} Brenner says 1912.") == results


def test_what_an_earlier_answer_rested_on_keeps_its_provenance():
    kept = {"text": "It is red.", "header": "Hall", "provenance": "tool"}
    written = {"id": "b", "text": "It is blue.", "provenance": "user"}
    states = [[kept, written, {"text": 4}, "words"], None, [kept]]
    ((passage, other),) = [e.passages for e in conversation_evidence(states)]
    assert (passage.text, passage.header, passage.counts) == (
        "It is red.",
        "Hall",
        True,
    )
    assert not other.counts
