"""Working memory: the best attempt, and dropped ranges that come back."""

from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Drop, Passage, Span
from denoise_core.augmenter import AnswerVerdict, Attempt, ClaimVerdict, WorkingMemory
from denoise_core.augmenter.knowledge.evidence_budget import restore_dropped
from denoise_core.augmenter.memory import best_attempt

PARTS = [ClaimVerdict("It is red.", 0, 10, supported) for supported in (True, False)]
verdicts = st.builds(
    AnswerVerdict,
    supported=st.sampled_from([True, False, None]),
    score=st.sampled_from([0.0, 0.5, 1.0]),
    units=st.sampled_from([(), tuple(PARTS)]),
    kind=st.sampled_from(["", "empty", "abstention", "wrong_abstention"]),
)
attempts = st.builds(
    Attempt,
    st.sampled_from(["", "It is red."]),
    verdicts,
)


@given(st.lists(attempts, min_size=1, max_size=4))
def test_the_best_attempt_is_the_earliest_of_the_highest_rank(made):
    best = WorkingMemory("q", attempts=tuple(made)).best
    if made[-1].is_abstention and best is made[-1]:
        return
    ranked = [attempt for attempt in made if attempt.has_text] or made

    def kind(attempt):
        """What is to be sent first: supported, partly, unknown, abstaining, refuted."""
        verdict = attempt.verdict
        if verdict.abstains and not verdict.passed:
            return 3
        return ("pass", "partial", "unknown", "", "fail").index(verdict.outcome)

    best_kind = min(map(kind, ranked))
    ranked = [attempt for attempt in ranked if kind(attempt) == best_kind]
    highest = max(attempt.verdict.score for attempt in ranked)
    assert next(a for a in ranked if a.verdict.score == highest) is best


def test_a_last_draft_that_does_not_know_is_believed_unless_one_is_supported():
    unclear = Attempt("It is red.", AnswerVerdict(score=0.5, kind="unclear"))
    refused = Attempt("I do not know.", AnswerVerdict(kind="abstention"))
    passed = Attempt("It is blue.", AnswerVerdict(True, 1.0))
    assert best_attempt([unclear, refused]) is refused
    assert best_attempt([refused, unclear]) is unclear
    assert best_attempt([passed, refused]) is passed


def test_dropped_ranges_come_back_at_their_place_the_highest_score_first():
    source = Passage("One. Two. Three. Four.", "p")
    shown = Passage("One. ", "p", spans=(Span("p", 0, 5),))
    drops = (
        Drop(Span("p", 5, 10), "low"),  # one without a score is the last
        Drop(Span("p", 10, 17), "low", -5.0),
        Drop(Span("p", 17, 22), "low", 0.2),
    )
    memory = WorkingMemory(
        "q",
        (shown,),
        retrieved=(source,),
        dropped=drops,
    )
    once = restore_dropped(memory, 1)
    assert [p.text for p in once.evidence] == ["One. Four."]
    assert set(once.dropped) == set(drops[:2])
    twice = restore_dropped(once, 1)
    assert [p.text for p in twice.evidence] == ["One. Three. Four."]
    assert restore_dropped(twice, 5).evidence == (source,)


def test_a_range_of_a_rewritten_passage_comes_back_as_a_passage():
    source = Passage("One. Two.", "p")
    rewritten = Passage(
        "Uno.",
        "p",
        spans=(Span("p", 0, 5),),
        is_rewritten=True,
    )
    drop = Drop(Span("p", 5, 9), "low")
    memory = WorkingMemory(
        "q",
        (rewritten,),
        retrieved=(source,),
        dropped=(drop,),
    )
    restored = restore_dropped(memory, 1).evidence
    assert [(p.id, p.text) for p in restored] == [("p", "Uno."), ("p#2", "Two.")]
