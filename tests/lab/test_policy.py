"""A trained policy: what it may choose, that it learns, what it saves, what recorded runs teach it."""

import json
import random

import numpy as np
import pytest
from augmenter_doubles import scripted
from augmenter_laws import check_answer
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Message, Passage
from denoise_core.augmenter import (
    AnswerVerdict,
    Attempt,
    Augmenter,
    Rules,
    WorkingMemory,
)
from denoise_core.augmenter.actions import Draft, Readmit, Search, Send
from denoise_core.testing import ListRetriever
from denoise_lab.policy import (
    LinearPolicy,
    Turn,
    imitate,
    learn_from_recorded,
    reinforce,
    simulators,
)
from denoise_lab.policy.fit import decisions_of, index_of
from denoise_lab.policy.trained import (
    NAMES,
    allowed,
    memory_features,
)
from denoise_lab.recording import from_lines, to_lines


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


def test_features_are_named_and_between_0_and_1():
    memory = WorkingMemory(
        "And do they have it? " * 30,
        (Passage("x", "a"),),
        tuple(Attempt("a", AnswerVerdict()) for _ in range(9)),
        (Message("user", "x"),) * 30,
        failures=(("draft", "x"),) * 5,
    )
    for found in (memory_features(memory), memory_features(WorkingMemory("?"))):
        assert found.shape == (len(NAMES),)
        assert ((found >= 0) & (found <= 1)).all()


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
    may = allowed(memory, attempts=3)
    assert may.any()
    policy = LinearPolicy(rng=random.Random(0))
    chances = policy.chances(memory)
    assert chances.sum() == pytest.approx(1.0)
    assert (chances[~may] == 0).all()
    action = policy.choose(memory)
    assert may[index_of(action)]
    assert action.probability == pytest.approx(chances[index_of(action)])


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


def test_training_is_the_same_every_time_with_one_seed():
    train = simulators(turns(4), seed=1)
    one, two = (
        reinforce(LinearPolicy(), train, rounds=3, seed=5)[0].weights for _ in range(2)
    )
    assert (one == two).all()
    assert (reinforce(LinearPolicy(), train, rounds=3, seed=6)[0].weights != one).any()


def test_imitation_does_as_the_teacher_does():
    train, test = simulators(turns(10), seed=1), simulators(turns(10), seed=2)
    teacher = Rules(without_evidence="draft")
    copied = imitate(LinearPolicy(), teacher, train)
    for episode in test:
        ours, theirs = (
            episode(copied)[0].memory.actions,
            episode(teacher)[0].memory.actions,
        )
        assert [type(a) for a in ours[:2]] == [type(a) for a in theirs[:2]]


def test_a_policy_survives_its_file(tmp_path):
    policy, _ = reinforce(
        LinearPolicy(), simulators(turns(3), seed=1), rounds=2, seed=0
    )
    policy.save(tmp_path / "policy.json")
    again = LinearPolicy.load(tmp_path / "policy.json")
    assert (again.weights == policy.weights).all()
    assert again.rng is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 9}', '{"version": 1, "features": []}']
)
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError, match="policy"):
        LinearPolicy.load(tmp_path / "p.json")
    with pytest.raises(InputError, match="not a saved policy"):
        LinearPolicy.load(tmp_path / "nothing.json")


def test_features_of_another_meaning_are_refused():
    data = LinearPolicy().as_json()
    data["features"][3] = "something else"
    with pytest.raises(InputError, match="train again"):
        LinearPolicy.from_json(json.loads(json.dumps(data)))


@pytest.mark.parametrize(
    "weights", [np.zeros((2, 3)), np.zeros(5), np.full((5, 18), np.nan)]
)
def test_weights_of_another_shape_are_refused(weights):
    with pytest.raises(InputError, match="weights: expected"):
        LinearPolicy(weights)


def recorded(policy, episodes):
    return [episode(policy) for episode in episodes]


def test_decisions_are_read_back_from_a_written_run():
    (episode,) = simulators(list(turns(1))[:1], seed=3)
    policy = LinearPolicy(rng=random.Random(4))
    answer, _ = episode(policy)
    again = from_lines(to_lines(answer))
    found = decisions_of(policy, episode.augmenter(policy), again)
    assert [d.taken for d in found] == [index_of(a) for a in answer.memory.actions]
    assert [d.probability for d in found] == [
        a.probability for a in answer.memory.actions
    ]
    state = WorkingMemory(answer.memory.question)
    assert (found[0].features == memory_features(state)).all()


def test_recorded_runs_teach_a_policy_without_running_anything():
    train, test = simulators(turns(20), seed=1), simulators(turns(10), seed=2)
    explorer = LinearPolicy(rng=random.Random(1))
    runs = recorded(explorer, train) + recorded(explorer, train)
    learnt, report = learn_from_recorded(
        LinearPolicy(), train[0].augmenter(explorer), runs
    )
    assert mean(learnt, test) > mean(LinearPolicy(rng=random.Random(2)), test)
    assert report.runs == len(runs)
    assert 1 <= report.effective_runs <= report.runs
    assert report.largest_weight > 0


def test_nothing_to_learn_from_is_refused():
    train = simulators(turns(1), seed=1)
    for run, message in (
        (lambda: reinforce(LinearPolicy(), [], rounds=1, seed=0), "expected episodes"),
        (
            lambda: reinforce(LinearPolicy(), train, rounds=0, seed=0),
            "rounds of 1 or more",
        ),
        (
            lambda: learn_from_recorded(
                LinearPolicy(), train[0].augmenter(Rules()), []
            ),
            "at least one run",
        ),
        (lambda: imitate(LinearPolicy(), Rules(), []), "took no action"),
    ):
        with pytest.raises(InputError, match=message):
            run()


def test_any_policy_of_these_keeps_the_laws_of_the_loop(passages, question):
    for seed in range(30):
        policy = LinearPolicy(rng=random.Random(seed))
        check_answer(
            Augmenter(
                scripted("In 1889 [1].", "no"), ListRetriever(passages), policy=policy
            ).answer(question)
        )
