"""What texts are compared by word for word carries the facts that the judge of answers reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core.text.facts import facts
from denoise_core.text.tokens import tokens

WRITINGS = [
    ("twenty-one people", "21 people"),
    ("on March 5, 1990", "on 5 March 1990"),
    ("$3.2 billion", "$3,200,000,000"),
    ("two hundred and fifty metres", "250 metres"),
    ("48 percent", "48 %"),
    ("48 percent", "48%"),
    ("at 3 pm", "at 15:00"),
    ("he can't swim", "he cannot swim"),
    ("it didn't hold", "it did not hold"),
    ("a well-known man", "a well known man"),
    ("10km long", "10 km long"),
]


@pytest.mark.parametrize(("one", "other"), WRITINGS)
def test_two_writings_of_one_thing_are_the_same_words(one, other):
    assert [t.norm for t in tokens(one)] == [t.norm for t in tokens(other)]


@pytest.mark.parametrize(
    ("one", "other"), [("-5 degrees", "5 degrees"), ("twenty-one", "twenty"), ("must not", "must"), ("3.2", "32")]
)
def test_two_things_are_not(one, other):
    assert [t.norm for t in tokens(one)] != [t.norm for t in tokens(other)]


@given(st.text(max_size=200), st.sampled_from(["en", "de", "fr", "es"]))
def test_tokens_stand_in_the_text_in_order_and_name_what_facts_name(text, language):
    found = tokens(text, language)
    assert all(0 <= t.start < t.end <= len(text) for t in found)
    assert [t.start for t in found] == sorted(t.start for t in found)
    told = facts(text, language=language)
    denied = {f.start for f in told if f.kind == "negation"}
    assert denied <= {t.start for t in found if t.kind == "negation"}
    for number in (f for f in told if f.kind in ("number", "time")):
        assert any(t.start == number.start and t.kind == "number" for t in found), number


def test_it_is_not_only_words_that_deny_in_a_list():
    kinds = {t.norm: t.kind for t in tokens("Not only the rich pay. They have no choice unless they leave.")}
    assert kinds["no"] == kinds["unless"] == "negation"
    assert kinds["not"] != "negation"
