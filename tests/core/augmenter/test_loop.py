"""The loop sends the best attempt it made, told from feedback what was wrong, and says how far it is supported."""

import pytest
from augmenter_doubles import RIGHT, WRONG, HalfDenoiser, Script, check_loop, scripted

from denoise_core import Passage
from denoise_core.augmenter import (
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    Rules,
    StopReason,
)
from denoise_core.augmenter.actions import Abstain, Draft, Readmit, Search, Send
from denoise_core.testing import ListRetriever


def test_feedback_names_claim_passage_and_what_is_missing_and_the_next_draft_sees_it(
    build_loop, question
):
    long_claim = f"It was {'very ' * 100}high."
    wrong = " ".join([WRONG, long_claim, *["It is bad."] * 7])
    loop = build_loop(wrong, RIGHT)
    answer = loop.answer(question)
    assert (answer.text, answer.outcome) == (RIGHT, Outcome.SUPPORTED)
    assert [p.id for p in answer.citations] == ["eiffel"]
    first, second = loop.llm.received_messages
    assert all("1925" not in message.content for message in first)
    feedback = second[-1].content
    assert '"It was completed in 1925 [1].": ' in feedback
    assert "(nearest evidence: [1]); not found there: 1925" in feedback
    assert '…": ' in feedback
    assert "and 3 more of the same kind" in feedback


@pytest.mark.parametrize(
    ("policy", "outcome", "calls"),
    [
        (Rules(), Outcome.ABSTAINED, 0),
        (Rules(without_evidence="draft"), Outcome.UNKNOWN, 1),
        (Rules(consult="never"), Outcome.UNKNOWN, 1),
    ],
)
def test_without_evidence_nothing_the_model_says_is_supported(
    passages, question, policy, outcome, calls
):
    model = scripted(RIGHT)
    loop = Augmenter(model, ListRetriever([]), policy=policy)
    answer = check_loop(lambda: loop, question)
    assert (answer.outcome, answer.stop_reason) == (outcome, StopReason.NO_EVIDENCE)
    withheld = loop.with_limits(unsupported="abstain").answer(question)
    assert withheld.outcome is Outcome.ABSTAINED
    assert len(model.received_messages) == 3 * calls
    at_hand = loop.answer(question, evidence=passages)
    assert at_hand.outcome is Outcome.SUPPORTED


def test_what_is_still_unknown_after_more_evidence_ends_the_loop(passages, question):
    """Without this bound each abstention would restore another chunk and ask again."""
    answer = check_loop(
        lambda: Augmenter(
            scripted('{"answer": null}', '{"answered": false}'),
            ListRetriever(passages[::-1]),
            denoiser=HalfDenoiser(),
            policy=Rules(readmit=1, widen=False),
        ),
        question,
    )
    assert answer.outcome is Outcome.ABSTAINED
    actions = [type(action) for action in answer.memory.actions]
    assert actions == [Search, Draft, Readmit, Draft, Abstain]
    assert answer.memory.dropped


def test_new_evidence_gets_room_and_a_repeated_draft_another_try(question):
    old, new = (Passage(f"The {n} tower. " * 300, n) for n in ("old", "new"))
    consolidator = Consolidator(ListRetriever([old]), wide=(ListRetriever([new]),))
    loop = Augmenter(
        scripted(WRONG),
        consolidator,
        policy=Script(Search(), Draft(), Draft(), Search(wide=True), Draft(), Send()),
        limits=LoopLimits(evidence_tokens=1200, patience=9),
    )
    answer = loop.answer(question)
    assert answer.memory.draft_count == 3
    assert answer.stop_reason is StopReason.SENT
    assert "new" in [passage.id for passage in answer.memory.evidence]
