"""The world is the same for a seed, keeps its tests apart, and its facts are as alike as asked."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_lab.worlds import almanac
from denoise_lab.worlds.opinions import KINDS, opinion
from denoise_lab.worlds.relations import RELATIONS
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.sums import make_sum
from denoise_lab.worlds.world import World, coins, held_out

seeds = st.integers(0, 10_000)


def world(seed, **settings):
    return World(random.Random(seed), **settings)


@given(seeds)
def test_a_seed_gives_one_world(seed):
    hard = Difficulty(6, 4, 3, 150)
    assert make_scene(world(seed), hard) == make_scene(world(seed), hard)


@given(seeds, st.integers(2, 13), st.integers(0, 4))
def test_things_share_what_the_level_says_and_are_all_different(seed, n, level):
    facts = world(seed).things(n, level)
    first = facts[0].key
    assert len({f.key for f in facts}) == len(facts) == n
    assert all(sum(a == b for a, b in zip(first, f.key, strict=True)) == level for f in facts[1:])


@pytest.mark.parametrize("seed", range(20))
def test_there_are_always_neighbours_enough(seed):
    assert len(world(seed, test=True).things(10, 4)) == 10  # some first combinations have fewer that are held out


@given(seeds)
def test_what_is_kept_for_testing_is_never_drawn_for_training(seed):
    for test in (False, True):
        drawn = world(seed, test=test)
        assert held_out(drawn.town()) is test
        assert held_out(drawn.person()[1]) is test
        assert all(held_out(*f.key) is test for f in drawn.things(3, 1))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda r: r.name)
def test_the_last_wording_is_for_testing_alone(relation):
    for wordings in (relation.statements, relation.questions):
        assert len(set(wordings)) == len(wordings) >= 8
        drawn = {world(n).pick(wordings) for n in range(150)}
        assert drawn == set(wordings[:-1])
        assert {world(n, test=True).pick(wordings) for n in range(9)} == {wordings[-1]}


@given(seeds)
def test_a_statement_for_testing_is_said_as_it_is_listed(seed):
    drawn = world(seed, test=True)
    fact = drawn.facts(2, 0)[0]
    assert fact.says(drawn) == fact.relation.statements[-1].format(s=fact.subject, v=fact.value)


@given(seeds)
def test_coined_words_leave_names_and_values_as_they_are(seed):
    drawn = world(seed, coin=1.0)
    for fact in drawn.facts(4, 1):
        assert fact.subject in (said := fact.says(drawn))
        assert fact.value in said
        assert fact.subject in replace(fact, named=True).asks(drawn)
        assert fact.asks(drawn) in {q.format(s=fact.subject) for q in fact.relation.questions[:-1]}
    problem = make_sum(drawn, noise="none")
    assert sum(" more" in s for s in problem.sentences[1:]) == sum("+" in s for s in problem.steps)
    assert "more" not in coins()


def test_coined_words_are_many_and_for_training_alone():
    relation = RELATIONS[0]
    listed = set(relation.statements)
    assert len({world(n, coin=1.0).coined(relation.statements) for n in range(60)} - listed) > 40
    assert all(world(n, test=True, coin=1.0).coined(relation.statements) in listed for n in range(9))


@given(seeds)
def test_without_coined_words_nothing_else_is_drawn(seed):
    plain, coined = world(seed), world(seed, coin=0.0)
    assert coined.coined(RELATIONS[0].statements) == plain.pick(RELATIONS[0].statements)
    assert coined.rng.random() == plain.rng.random()


@given(seeds, st.integers(0, 400))
def test_a_scene_states_every_fact_once_where_it_says(seed, prose):
    scene = make_scene(world(seed), Difficulty(6, 3, 4, prose))
    for k, fact in enumerate(scene.facts):
        assert fact.subject in scene.said(k)
        assert fact.value in scene.said(k)
    assert sum(scene.said(0) in text for text in scene.texts()) == 1
    assert len(set(scene.places)) == len(scene.facts)


@given(seeds, st.sampled_from(("none", "random", "topic")))
def test_a_word_problem_comes_out_right(seed, noise):
    problem = make_sum(world(seed), noise=noise)
    for step in problem.steps:
        sum_, result = step.rstrip(".").split(" = ")
        a, sign, b = sum_.split()
        assert int(a) + (int(b) if sign == "+" else -int(b)) == int(result)
    assert problem.steps[-1].endswith(f"= {problem.answer}.")
    assert problem.noise in problem.text
    assert problem.answer >= 0
    assert bool(problem.noise) is (noise != "none")
    assert problem.clean == " ".join(problem.sentences)


@given(seeds, st.sampled_from(KINDS))
def test_an_opinion_names_the_right_answer_or_another(seed, kind):
    drawn = world(seed)
    fact = drawn.facts(2, 0)[0]
    said, told = opinion(drawn, fact, kind)
    assert told == kind
    assert bool(re.search(rf"\b{fact.value}\b", said)) is kind.startswith("correct")  # a flute is no lute


@given(seeds)
def test_what_training_draws_says_its_kind(seed):
    drawn = world(seed)
    fact = drawn.facts(2, 0)[0]
    said, told = opinion(drawn, fact)
    assert bool(re.search(rf"\b{fact.value}\b", said)) is told.startswith("correct")
    assert any(word in said for word in ("not think", "don't think", "doubt", "hardly")) is told.endswith("denied")


def test_the_almanac_is_always_the_same_and_never_contradicts_itself():
    facts = almanac.facts()
    assert len({(f.key, f.relation.name) for f in facts}) == len(facts) == 2 * almanac.TOWNS
