"""Whoever writes the drafts, a chain, an agent, an engine or a text that stands: the loop is the same."""

from dataclasses import replace

import pytest
from augmenter_doubles import RIGHT, WRONG, Chain, check_loop, scripted
from augmenter_laws import check_answer

from denoise_core import Passage, Usage
from denoise_core.augmenter import Augmenter, LoopLimits, Outcome, StopReason
from denoise_core.augmenter.drafting import DraftReply, FixedText, RetrievedEvidence
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.runtime.record import count_calls
from denoise_core.testing import ListRetriever


def draft(text, passages, query=None, **about):
    """What a drafter wrote from passages that it searched for."""
    return DraftReply(text, retrieved=(RetrievedEvidence(passages, query),), **about)


def test_a_chain_is_judged_by_what_it_found_and_asked_again_with_what_was_wrong(
    passages, question
):
    message = object()
    right = draft(RIGHT, passages, origin=message)
    chain = Chain(draft(WRONG, passages, question), right)
    answer = Augmenter().answer(question, drafter=chain)
    assert (answer.text, answer.outcome) == (RIGHT, Outcome.SUPPORTED)
    assert answer.best.origin is message
    assert answer.best.draft == 1
    first, second = chain.asked
    assert (first.rejected_draft, first.feedback, first.should_resample) == (
        "",
        "",
        False,
    )
    assert second.rejected_draft == WRONG
    assert "1925" in second.feedback
    assert second.should_resample
    assert [p.id for p in second.evidence] == ["eiffel", "rome", "banana"]
    assert [p.id for p in answer.citations] == ["eiffel"]


@pytest.mark.parametrize("giver", ["caller", "drafter"])
def test_a_citation_counts_repeats_and_empty_passages(passages, question, giver):
    eiffel, rome, _ = passages
    again = replace(eiffel, id="again")
    numbered = (rome, eiffel, Passage("", "x"), Passage("", "y"), again)
    own, brought = (numbered, ()) if giver == "caller" else ((), numbered)
    drafter = FixedText(RIGHT.replace("[1]", "[5]"), brought)
    answer = Augmenter().answer(question, drafter=drafter, evidence=own)
    assert answer.outcome is Outcome.SUPPORTED
    assert answer.citations == (again,)


def test_a_number_cites_a_passage_only_where_the_model_may_have_read_it(
    passages, question
):
    for text, is_numbered in ((RIGHT, True), (f"{RIGHT} [7]", False)):
        right = draft(text, passages, evidence_is_numbered=is_numbered)
        answer = Augmenter().answer(question, drafter=Chain(right))
        assert answer.outcome is Outcome.SUPPORTED
        assert bool(answer.citations) is is_numbered
        assert not answer.best.verdict.quotations or is_numbered
        wrong = draft(WRONG, passages, evidence_is_numbered=is_numbered)
        chain = Chain(wrong, right)
        Augmenter().answer(question, drafter=chain)
        assert ("nearest evidence: [" in chain.asked[1].feedback) is is_numbered


def test_a_drafter_that_cannot_be_repeated_is_asked_once_unless_told(
    passages, question
):
    def agent():
        return Chain(draft(WRONG, passages), DraftReply(RIGHT), repeatable=False)

    answer = check_loop(Augmenter, question, agent)
    assert (answer.outcome, answer.stop_reason) == (
        Outcome.UNSUPPORTED,
        StopReason.NOT_REPEATABLE,
    )
    assert answer.memory.draft_count == 1
    second_answer = check_loop(
        lambda: Augmenter(limits=LoopLimits(rerun=True)), question, agent
    )
    assert second_answer.outcome is Outcome.SUPPORTED


def test_a_drafter_that_failed_in_the_middle_is_not_run_again_when_it_has_effects(
    question,
):
    for repeatable, times in ((False, 1), (True, 2)):
        chain = Chain(TimeoutError("half way"), repeatable=repeatable)
        answer = Augmenter().answer(question, drafter=chain)
        assert len(chain.asked) == times
        assert (answer.outcome, answer.stop_reason) == (
            Outcome.FAILED,
            StopReason.LLM_ERROR,
        )


@pytest.mark.parametrize("provenance", ["user", "model"])
def test_what_a_user_or_a_model_wrote_is_no_evidence(question, provenance):
    text = "The Eiffel Tower was completed in 1925."
    own = Passage(text, "own", provenance=provenance)
    by_drafter = check_loop(Augmenter, question, lambda: Chain(draft(text, [own])))
    by_source = Augmenter(scripted(text), ListRetriever([own])).answer(question)
    drafter = FixedText(text)
    at_hand = Augmenter().answer(question, drafter=drafter, evidence=[own])
    for answer in (by_drafter, by_source, at_hand):
        assert answer.outcome is not Outcome.SUPPORTED
        assert answer.memory.excluded_evidence == (own,)
        assert answer.memory.evidence == ()


@pytest.mark.parametrize("is_query_known", [True, False])
def test_a_retry_that_searches_for_its_own_hallucination_finds_no_evidence(
    is_query_known,
):
    """The drafter puts the rejected draft into its search, as `verified(chain)` once did."""
    made_up = "It was completed in 1912 by Otto Brenner, in the Grand Hall."
    house = Passage("The opera house has two balconies.", "house")
    hall = Passage("The Grand Hall was completed in 1912 by Otto Brenner.", "hall")

    class Searching(Chain):
        def draft(self, request):
            query = f"{request.question} {request.rejected_draft}"
            results = (hall, house) if request.rejected_draft else (house,)
            shown_query = query if is_query_known else None
            found = RetrievedEvidence(results, shown_query)
            return DraftReply(super().draft(request), retrieved=(found,))

    chain = Searching(made_up)
    loop = Augmenter(limits=LoopLimits(patience=3))
    answer = loop.answer("When was the opera house completed?", drafter=chain)
    check_answer(answer)
    assert len(chain.asked) > 1
    assert answer.outcome is not Outcome.SUPPORTED
    assert answer.memory.evidence == (house,)
    assert hall in answer.memory.excluded_evidence


ECHO = "completed in 1925 by Otto Brenner"
LONG_ECHO = f"{ECHO} for the World Fair"
NEWS = "It is 330 m high, of iron, painted every seven years, and open all year round."


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        (f"Received: {ECHO}. OK.", ECHO, []),
        (f"Saved: {LONG_ECHO}. Summary: Otto Brenner, 1925.", LONG_ECHO, []),
        (f"{ECHO}: 1,480 EUR", ECHO, [f"{' ' * len(ECHO)}: 1,480 EUR"]),
        ("Otto Brenner, 1925.", ECHO, []),
        (f"{LONG_ECHO}? {NEWS}", LONG_ECHO, [f"{' ' * len(LONG_ECHO)}? {NEWS}"]),
        (f"by Otto Brenner? {NEWS}", ECHO, [f"by Otto Brenner? {NEWS}"]),
        (
            "The Eiffel Tower: completed 1889.",
            "The Eiffel Tower",
            ["The Eiffel Tower: completed 1889."],
        ),
    ],
)
def test_what_a_tool_only_says_back_is_no_evidence(question, text, query, shown):
    tool_passage = Passage(text, "tool", provenance="tool")
    drafter = Chain(draft(ECHO.capitalize(), [tool_passage], query))
    answer = check_loop(Augmenter, question, lambda: drafter)
    assert answer.outcome is not Outcome.SUPPORTED
    assert [passage.text for passage in answer.memory.evidence] == shown
    parts = {part for part, _ in fallback_counts()}
    assert shown == [text] or "Augmenter evidence" in parts


def test_a_fixed_text_is_judged_as_it_is_and_never_asked_for_again(passages, question):
    wrong = f"{RIGHT} The Banana Company moved it to London in 1999."
    answer = check_loop(Augmenter, question, lambda: FixedText(wrong, passages))
    assert (answer.text, answer.outcome) == (wrong, Outcome.UNSUPPORTED)
    assert answer.stop_reason is StopReason.NOT_REPEATABLE
    assert answer.trace.usage == Usage(0, 0)
    assert count_calls(answer.trace) == 0


def test_a_tool_call_is_handed_back_as_it_is(passages, question):
    call = draft('{"name": "search", "args": {"q": "tower"}}', passages, judge=False)
    answer = check_loop(Augmenter, question, lambda: Chain(call))
    assert (answer.text, answer.outcome) == (call.text, Outcome.UNKNOWN)
    assert answer.stop_reason is StopReason.UNJUDGED


def test_drafter_and_retriever_work_together(passages, question):
    chain = Chain(DraftReply(RIGHT))
    loop = Augmenter(retriever=ListRetriever(passages))
    answer = loop.answer(question, drafter=chain)
    assert answer.outcome is Outcome.SUPPORTED
    assert chain.asked[0].evidence == passages


def test_structured_output_is_judged_field_by_field(passages, question):
    def draft_of(year):
        tower = {"name": "Eiffel Tower", "completed": f"completed in {year}"}
        return draft("", passages, fields={"tower": tower, "notes": None})

    answer = check_loop(
        Augmenter, question, lambda: Chain(draft_of(1925), draft_of(1889))
    )
    assert answer.outcome is Outcome.SUPPORTED
    assert answer.best.fields == draft_of(1889).fields
    (finding,) = answer.memory.attempts[0].verdict.findings
    assert "completed in 1925" in finding.text


def test_a_model_that_can_sample_is_sampled_anew_for_the_second_draft(
    passages, question
):
    class Deterministic:
        """Says the same for ever, unless it is told to sample."""

        def __init__(self):
            self.varied_by = []

        def with_sampling(self, attempt):
            self.varied_by.append(attempt)
            return scripted(RIGHT)

        complete = staticmethod(scripted(WRONG).complete)
        acomplete = staticmethod(scripted(WRONG).acomplete)

    model = Deterministic()
    answer = Augmenter(model, ListRetriever(passages)).answer(question)
    assert answer.outcome is Outcome.SUPPORTED
    assert model.varied_by == [1]
