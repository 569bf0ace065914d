"""Attacks on every method, with a model that obeys each of them; `SECURITY.md` says what can happen."""

from functools import cache
from pathlib import Path

import pytest
from attack_harness import METHODS, attacks, tried

ALL = {attack["id"]: attack for attack in attacks()}
TRIALS = [(name, method) for name in ALL for method in ALL[name]["methods"]]
TABLE = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")


@cache
def outcome_of(name, method):
    return tried(ALL[name], method)


def test_there_are_attacks_of_every_family_against_every_method():
    assert len(ALL) >= 45
    assert len({attack["family"] for attack in ALL.values()}) >= 20
    assert {method for _, method in TRIALS} == set(METHODS)


@pytest.mark.parametrize(("name", "method"), TRIALS)
def test_nothing_outside_the_table_happens(name, method):
    outcome = outcome_of(name, method)
    assert not outcome.leaks
    for what in outcome.can_happen:
        assert what in TABLE


def test_the_model_does_obey():
    """Else the tests above would prove nothing."""
    happened = set()
    for name, method in TRIALS:
        happened.update(outcome_of(name, method).can_happen)
    assert len(happened) >= 3
