"""A trained policy: what it may choose, that it learns, what it saves, what recorded runs teach it."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.augmenter import (
    AnswerVerdict,
    Attempt,
    Rules,
    WorkingMemory,
)
from denoise_core.augmenter.actions import Draft, Readmit, Search, Send
from denoise_lab.policy import (
    LinearPolicy,
    Turn,
    imitate,
    learn_from_recorded,
    reinforce,
    simulators,
)
from denoise_lab.policy.fit import index_action, replay_decisions
from denoise_lab.policy.trained import (
    allowed_actions,
    memory_features,
)
from denoise_lab.recording import answer_from_lines, answer_to_lines


def turns(count):
    """Questions need a search, statements need none."""
    for n in range(count):
        snippets = (
            Passage(f"Breakfast at house {n} costs {n + 5} pounds.", "a"),
            Passage(f"House {n} has a garden.", "b"),
        )
        yield Turn(
            f"What does breakfast at house {n} cost?",
            (),
            snippets,
            frozenset(("a",)),
            "It is cheap.",
        )
        yield Turn(
            "I need a house in the north.",
            (),
            snippets,
            frozenset(),
            "For how many nights?",
        )


def mean(policy, episodes):
    return float(np.mean([episode(policy)[1] for episode in episodes]))


@given(
    st.lists(
        st.sampled_from([Search(), Search(wide=True), Readmit(), Draft(), Send()]),
        max_size=6,
    ),
    st.integers(0, 5),
)
def test_only_what_makes_sense_is_chosen(actions, attempts):
    memory = WorkingMemory(
        "q",
        actions=tuple(actions),
        attempts=tuple(Attempt("a", AnswerVerdict(False)) for _ in range(attempts)),
    )
    is_allowed = allowed_actions(memory, attempts=3)
    assert is_allowed.any()
    policy = LinearPolicy(rng=random.Random(0))
    chances = policy.action_probabilities(memory)
    assert chances.sum() == pytest.approx(1.0)
    assert (chances[~is_allowed] == 0).all()
    action = policy.choose(memory)
    assert is_allowed[index_action(action)]
    assert action.probability == pytest.approx(chances[index_action(action)])


def test_reinforce_learns_when_to_search_and_passes_every_fixed_policy():
    train, test = simulators(turns(20), seed=1), simulators(turns(20), seed=2)
    trained, curve = reinforce(LinearPolicy(), train, rounds=30, seed=0)
    assert len(curve) == 30
    found = mean(trained, test)
    assert found > mean(LinearPolicy(rng=random.Random(0)), test) + 0.1
    for rules in (
        Rules(without_evidence="draft"),
        Rules(consult="never"),
    ):
        assert found > mean(rules, test)


def test_one_seed_trains_one_policy_and_json_keeps_it():
    train = simulators(turns(3), seed=1)
    one, two, other = (
        reinforce(
            LinearPolicy(),
            train,
            rounds=2,
            seed=seed,
        )[0]
        for seed in (5, 5, 6)
    )
    assert (one.weights == two.weights).all()
    assert (one.weights != other.weights).any()
    again = LinearPolicy.from_json(json.loads(json.dumps(one.as_json())))
    assert (again.weights == one.weights).all()
    assert again.rng is None


def test_imitation_does_as_the_teacher_does():
    train, test = simulators(turns(10), seed=1), simulators(turns(10), seed=2)
    teacher = Rules(without_evidence="draft")
    copied = imitate(LinearPolicy(), teacher, train)
    for episode in test:
        ours, theirs = (
            [type(action) for action in episode(policy)[0].memory.actions[:2]]
            for policy in (copied, teacher)
        )
        assert ours == theirs


OTHER_FEATURES = LinearPolicy().as_json()
OTHER_FEATURES["features"][3] = "something else"


@pytest.mark.parametrize(
    ("policy_record", "message"),
    [
        ({}, "policy"),
        ([], "policy"),
        ({"version": 9}, "policy"),
        ({"version": 1, "features": []}, "policy"),
        (OTHER_FEATURES, "train again"),
    ],
)
def test_other_records_are_refused(policy_record, message):
    with pytest.raises(InputError, match=message):
        LinearPolicy.from_json(policy_record)


def test_decisions_are_read_back_from_a_written_run():
    (episode,) = simulators(list(turns(1))[:1], seed=3)
    policy = LinearPolicy(rng=random.Random(4))
    answer, _ = episode(policy)
    again = answer_from_lines(answer_to_lines(answer))
    found = replay_decisions(policy, episode.augmenter(policy), again)
    assert [d.action_index for d in found] == [
        index_action(a) for a in answer.memory.actions
    ]
    assert [d.probability for d in found] == [
        a.probability for a in answer.memory.actions
    ]
    state = WorkingMemory(answer.memory.question)
    assert (found[0].features == memory_features(state)).all()


def test_recorded_runs_teach_a_policy_without_running_anything():
    train, test = simulators(turns(20), seed=1), simulators(turns(10), seed=2)
    explorer = LinearPolicy(rng=random.Random(1))
    runs = [episode(explorer) for episode in train * 2]
    loop = train[0].augmenter(explorer)
    learnt, report = learn_from_recorded(LinearPolicy(), loop, runs)
    assert mean(learnt, test) > mean(LinearPolicy(rng=random.Random(2)), test)
    assert report.runs == len(runs)
    assert 1 <= report.effective_runs <= report.runs
    assert report.largest_weight > 0


def test_nothing_to_learn_from_is_refused():
    train = simulators(turns(1), seed=1)
    loop = train[0].augmenter(Rules())
    for message, function, *arguments in (
        ("expected episodes", reinforce, []),
        ("rounds of 1 or more", reinforce, train),
        ("at least one run", learn_from_recorded, loop, []),
        ("took no action", imitate, Rules(), []),
    ):
        options = {"rounds": 0, "seed": 0} if function is reinforce else {}
        with pytest.raises(InputError, match=message):
            function(LinearPolicy(), *arguments, **options)
