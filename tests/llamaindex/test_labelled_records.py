"""Nodes that only their metadata tells apart: what is said of one is not supported by the other's text."""

import pytest
from judging import InOnePassage
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_engines import Fixed

from llamaindex_denoise import AugmentedQueryEngine

REVENUE = [("2022", "12.4"), ("2023", "15.1")]
LARKMOOR = [("Tessel", "11:30"), ("Overby", "10:00")]


def revenue():
    """Two years of one company."""
    return [
        NodeWithScore(
            node=TextNode(text=f"Revenue was {v} million.", id_=y, metadata={"company": "Acme", "year": y}),
            score=1.0,
        )
        for y, v in REVENUE
    ]


def inns():
    """Two towns of one chain of inns."""
    return [
        NodeWithScore(
            node=TextNode(
                text=f"Rooms must be vacated by {t}.", id_=c, metadata={"hotel": "Larkmoor Inn", "city": c}
            ),
            score=1.0,
        )
        for c, t in LARKMOOR
    ]


def outcome(scripted, found, question, said):
    llm = scripted(lambda m: said)
    engine = AugmentedQueryEngine.from_args(Fixed(found), llm, judge=InOnePassage())
    return engine.query(question).metadata["denoise"]["outcome"]


@pytest.mark.parametrize(("year", "value"), [(y, v) for y, _ in REVENUE for _, v in REVENUE])
def test_a_sibling_years_value_is_not_supported(scripted, year, value):
    question = f"What was the revenue of Acme in {year}?"
    found = outcome(scripted, revenue(), question, f"The revenue of Acme in {year} was {value} million.")
    assert (found == "supported") is ((year, value) in REVENUE)


@pytest.mark.parametrize(("city", "time"), [(c, t) for c, _ in LARKMOOR for _, t in LARKMOOR])
def test_a_sibling_towns_time_is_not_supported(scripted, city, time):
    question = f"By what time must rooms be vacated at the Larkmoor Inn in {city}?"
    said = f"Rooms at the Larkmoor Inn in {city} must be vacated by {time}."
    found = outcome(scripted, inns(), question, said)
    assert (found == "supported") is ((city, time) in LARKMOOR)
