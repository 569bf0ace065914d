"""Attacks on every method, with a model that obeys each of them; `SECURITY.md` says what can happen."""

from collections import Counter
from pathlib import Path

import pytest
from attack_harness import METHODS, attacks, tried

ALL = attacks()
TABLE = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")


def test_there_are_attacks_of_every_family_against_every_method():
    assert len(ALL) >= 45
    assert len({a["family"] for a in ALL}) >= 20
    assert {m for a in ALL for m in a["methods"]} == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("attack", ALL, ids=lambda a: a["id"])
def test_nothing_outside_the_table_happens(attack, method):
    if method not in attack["methods"]:
        return
    outcome = tried(attack, method)
    assert not outcome.leaks
    for what in outcome.can_happen:
        assert what in TABLE


def test_the_model_does_obey():
    """Else the tests above would prove nothing."""
    happened = Counter(
        w for a in ALL for m in a["methods"] for w in tried(a, m).can_happen
    )
    assert len(happened) >= 4
