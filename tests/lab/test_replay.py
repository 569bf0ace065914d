"""Recorded runs replayed without a generator, and judged anew."""

import pytest
from augmenter_doubles import RIGHT, WRONG, recorded, recorded_drafter, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import let_words_judge, quoting

from denoise_core import Budget, Passage
from denoise_core.augmenter import (
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    StopReason,
)
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.runtime.record import count_calls
from denoise_core.support import judges
from denoise_core.testing import ListRetriever
from denoise_lab.recording import answer_from_lines, answer_to_lines
from denoise_lab.replay import replay


class Never:
    """Whoever is asked here has been asked by mistake."""

    def fail(self, *_):
        raise AssertionError(
            "a generator, retriever or denoiser was called in a replay"
        )

    complete = acomplete = retrieve = aretrieve = denoise = adenoise = fail


def through_json(answer):
    return answer_from_lines(line + "\n" for line in answer_to_lines(answer))


@pytest.fixture(autouse=True)
def words_judge(monkeypatch):
    let_words_judge(monkeypatch)


def replay_offline(answer, **options):
    """Replay in a loop whose model, retriever and denoiser must not be asked."""
    return replay(Augmenter(Never(), Never(), denoiser=Never(), **options), answer)


def test_a_spent_budget_is_replayed_as_one(passages, question):
    budget = Budget(calls=2)
    run = recorded(passages, question, WRONG, RIGHT, budget=budget)
    answer = through_json(run)
    assert answer.stop_reason is StopReason.BUDGET
    # One search, one draft; the refused one was never asked.
    assert count_calls(answer.trace) == 1
    assert replay_offline(answer).answer.stop_reason is StopReason.BUDGET


def test_a_stricter_utility_comes_to_the_end_of_the_recording(passages, question):
    answer = recorded(passages, question, RIGHT)
    again = replay_offline(answer, judge=judges.function_judge(lambda *_: 0.2))
    assert again.answer.text == RIGHT
    assert again.answer.outcome == Outcome.UNSUPPORTED
    assert again.answer.stop_reason is StopReason.BUDGET
    assert not again.exact
    assert not again.is_complete
    assert [e.tag for e in again.answer.trace.events] == ["judge"]


def test_a_replay_asks_a_judge_of_its_own_for_real(passages, question):
    judge = quoting("supported")
    again = replay_offline(recorded(passages, question, WRONG, RIGHT), judge=judge)
    assert again.answer.text == WRONG
    assert len(judge.received_messages) == 1


def test_a_model_for_queries_is_not_asked_again(passages, question):
    def make(llm, retriever, other):
        consolidator = Consolidator(retriever, queries=LLMQueries(other))
        return Augmenter(llm, consolidator)

    answer = make(
        scripted(WRONG, RIGHT), ListRetriever(passages), scripted("tower")
    ).answer(question)
    again = replay(make(Never(), Never(), Never()), through_json(answer))
    assert again.exact
    assert again.is_complete
    assert again.answer.memory == answer.memory


@settings(max_examples=12)
@given(
    st.lists(
        st.one_of(st.text(max_size=30), st.just(RIGHT), st.just(OSError("x"))),
        min_size=1,
        max_size=5,
    )
)
def test_any_run_replays_to_itself(replies):
    found = (
        Passage("The tower was completed in 1889.", "a"),
        Passage("Rome is in Italy.", "b"),
    )
    limits = LoopLimits(attempts=4, patience=4)
    answer = through_json(recorded(found, "When?", *replies, limits=limits))
    again = replay_offline(answer, limits=limits)
    assert again.exact
    assert again.answer.text == answer.text
    assert again.answer.memory == answer.memory


def test_runs_of_drafters_are_replayed(passages, question):
    again = through_json(recorded_drafter(passages, question))
    played = replay(Augmenter(), again)
    assert played.exact
    assert played.answer.text == again.text
    assert played.answer.memory == again.memory
    stricter = replay(Augmenter(judge=lambda question, evidence, claim: 0.0), again)
    assert stricter.answer.stop_reason in (
        StopReason.JUDGE_UNDECIDED,
        StopReason.BUDGET,
        StopReason.NO_PROGRESS,
        StopReason.ATTEMPTS,
    )
