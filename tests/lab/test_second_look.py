"""A second look raises what belongs to the best passages, whatever the list, and lowers nothing."""

import numpy as np
import pytest

from denoise_core.embedded import DefaultScorer, encoder, sample, scale
from denoise_lab.experiments.second_look import second_look

BRIDGED = [
    "The invoicing rewrite belongs to the Heron squad.",
    "The Heron squad is led by Imke Vollstad.",
    "Lunch is at noon in the canteen.",
    "The card vault opens with two keys.",
    "Parking is free for guests on Sundays.",
    "The printer stands beside the lift.",
    "Rain is expected for the weekend.",
]


def looked_at(query, texts):
    plain = DefaultScorer().score(query, texts)
    return plain, second_look(encoder(), query, texts, plain)


def test_it_raises_what_belongs_to_the_best_and_lowers_nothing():
    """The question names the one passage; the other, which it needs too, shares only a name with that."""
    plain, looked = looked_at("Who is responsible for the invoicing rewrite?", BRIDGED)
    assert (looked >= plain).all()
    assert looked.argmax() == plain.argmax() == 0
    assert looked.max() == plain.max()
    assert np.argsort(-looked)[1] == 1
    assert (looked > plain).any()


def test_auto_keeps_what_it_keeps_without():
    for q in sample()[:12]:
        texts = [p.headed for p in q.passages]
        plain, looked = (scale().rule().choose(scores, texts) for scores in looked_at(q.text, texts))
        assert (looked >= plain).all()


@pytest.mark.parametrize("texts", [[], ["One."], ["One.", "Two."], ["Same."] * 4, ["", "Two.", "Three.", "Two."]])
@pytest.mark.parametrize("query", ["", "Who?", "one two"])
def test_it_takes_any_list(texts, query):
    found = looked_at(query, texts)[1]
    assert found.shape == (len(texts),)
    assert not np.isnan(found).any()
