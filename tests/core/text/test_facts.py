"""Facts of a text: how each is parsed, and that texts which say the same in other words have the same facts."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core.text.facts import extract_facts, find_differences
from denoise_core.text.facts.names import same_name


def facts_of(text, kind, language=""):
    facts = extract_facts(text, language=language)
    return [fact for fact in facts if fact.kind == kind]


def norms_of(text, kind, language=""):
    return [fact.norm for fact in facts_of(text, kind, language)]


@pytest.mark.parametrize(
    "text",
    [
        "It was 4 July 1962.",
        "It was July 4th, 1962.",
        "It was July 4, 1962.",
        "It was the fourth of July 1962.",
        "It was 1962-07-04.",
        "4. Juli 1962",
        "el 4 de julio de 1962",
        "le 4 juillet 1962",
        "It was 04.07.1962.",
        "It was 1962/07/04.",
        "It was Jul. 4, 1962.",
    ],
)
def test_one_date_in_many_forms(text):
    assert norms_of(text, "date") == ["1962-07-04"]


@pytest.mark.parametrize(
    ("text", "norms"),
    [
        ("in the 1950s", ["195?"]),
        ("in the 50s", ["195?"]),
        ("die 1950er", ["195?"]),
        ("May 2019", ["2019-05"]),
        ("since March", ["????-03"]),
        ("He may go.", []),
        ("They march on.", []),
        ("I sat, Mark won.", []),
        ("Version 1.2.3 of 12 items", []),
    ],
)
def test_dates_that_leave_something_open_and_what_is_none(text, norms):
    assert norms_of(text, "date") == norms


@pytest.mark.parametrize(
    ("text", "value"),
    [("twenty-one", 21), ("3,200,000", 3.2e6), ("3.2 million", 3.2e6), ("five hundred", 500),
     ("minus 18", -18), ("−18 °C", -18), ("1 234 567", 1234567), ("2,4 Millionen", 2.4e6),
     ("$4.1 billion", 4.1e9), ("12k", 12000)],
)  # fmt: skip
def test_one_number_in_many_forms(text, value):
    language = "de" if "Millionen" in text else ""
    (fact,) = facts_of(text, "number", language)
    assert value in map(pytest.approx, fact.values)


@pytest.mark.parametrize(
    ("text", "names"),
    [("It was O'Brien.", ["o'brien"]), ("He met Jean-Luc Picard.", ["jean-luc picard"]),
     ("We ate at McDonald's.", ["mcdonald"]), ("J. R. R. Tolkien", ["j r r tolkien"]),
     ("by Ludwig van Beethoven", ["ludwig", "beethoven"]), ("the O’Brien Act", ["o'brien act"]),
     ("He said nothing.", []), ("in der Stadt", [])],
)  # fmt: skip
def test_names(text, names):
    assert norms_of(text, "name", "en" if names else "") == names


EQUIVALENT_TEXTS = [
    ("He is twenty-one.", "He is 21 years old."),
    ("It cost 3,200,000 dollars.", "It cost $3.2 million."),
    ("It cost 3.2M USD.", "It cost $3.2m."),
    ("It opened on July 4th.", "It opened on 4 July 1976."),
    ("It was founded in the 1950s.", "It was founded in 1954."),
    ("Tolkien gave the lecture.", "John Ronald Reuel Tolkien gave the lecture."),
    ("Siobhán O’Brien chaired it.", "Siobhán O'Brien chaired it until 2013."),
    ("It takes 30 minutes.", "It takes half of 1 hour, or 0.5 hours."),
    ("It weighs 2 kg.", "It weighs 2000 g."),
    ("Clean it with lukewarm water.", "Clean it with luke-\nwarm water."),
    ("He crossed the Iron Bridge.", "He crossed an iron bridge."),
    ("The Heron G weighs 10.9 kg.", "model,kg,price_eur,stock\nHeron G,10.9,1590,9"),
    ("The Heron G costs 1590 euros.", "model,kg,price_eur,stock\nHeron G,10.9,1590,9"),
    ("The Heron G costs 1590 euros.", "model | price_eur\nHeron G | 1590"),
    ("It opens at 8:00.", "It is open from 08:00."),
]
DIFFERENT_TEXTS = [
    ("It cost $3.2 billion.", "It cost $3.2 million.", "number"),
    ("It cost $3.2m.", "It is 3.2 m tall.", "number"),
    ("It was 5 degrees.", "It was -5 degrees.", "number"),
    ("It weighs 2 kg.", "It weighs 2 lb.", "number"),
    ("It opened on 4 June.", "It opened on 4 July 1976.", "date"),
    ("It was founded in 1954.", "It was founded in the 1950s.", "date"),
    ("It was the work of Charles I.", "It was the work of Charles II.", "name"),
    ("Luc Berger built it.", "Jean-Luc Berger built it.", "name"),
    ("The Heron G costs 1690 euros.", "Heron G,10.9,1590,9", "number"),
    ("It costs 20.9 euros.", "Heron G,20,339,17", "number"),
    ("It opens at 8:00.", "It opens at 18:00.", "number"),
]


@pytest.mark.parametrize(("claim", "source"), EQUIVALENT_TEXTS)
def test_the_same_in_other_words(claim, source):
    assert find_differences(claim, source) == ()


@pytest.mark.parametrize(("claim", "source", "kind"), DIFFERENT_TEXTS)
def test_what_differs_is_named(claim, source, kind):
    kinds = {difference.kind for difference in find_differences(claim, source)}
    assert kind in kinds


@pytest.mark.parametrize(
    ("claimed", "source", "is_same"),
    [
        ("john tolkien", "tolkien", True),
        ("john ronald tolkien", "john tolkien", True),
        ("john tolkien", "john", False),
        ("john ronald tolkien", "peter tolkien", False),
        ("john ronald tolkien", "john ronald", False),
    ],
)
def test_a_source_that_has_only_the_surname_has_the_name(claimed, source, is_same):
    assert same_name(claimed, source) is is_same


def test_a_text_supports_itself():
    for text in chain.from_iterable(EQUIVALENT_TEXTS + DIFFERENT_TEXTS):
        assert find_differences(text, text) == ()


WORDS = ("4", "July", "1962", "of", "the", ".", ",", "not", "$", "km", "O'Brien", "II")
ROWS_OF_WORDS = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


@given(st.text(max_size=300) | ROWS_OF_WORDS)
def test_facts_of_any_text_are_inside_it_and_in_order(text):
    places = []
    for fact in extract_facts(text):
        assert 0 <= fact.start < fact.end <= len(text)
        places.append((fact.start, fact.end, fact.kind))
    assert places == sorted(places)
    find_differences(text, text[::-1])


def test_twice_the_text_has_twice_the_facts():
    sentence = "In 2021 Ann Lee did not pay $3.2 million. "
    assert len(extract_facts(sentence * 200)) == 2 * len(extract_facts(sentence * 100))
