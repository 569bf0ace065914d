"""The figures that benchmarks/README.md quotes are those of the results files, and those that miss are there."""

import json
import re

import pytest
from code_measures import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def section():
    """What is said of LlamaIndex's own parts."""
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    return re.search(r"^## LlamaIndex\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def test_figures_are_those_of_the_results_file(section):
    results = (BENCHMARKS / "results" / "llamaindex_peers.json").read_text("utf-8")
    rows = {row["measure"]: row for row in json.loads(results)["rows"]}
    table = re.findall(
        r"^\| (?!measure|---)(.+?) \| (.+?) \| (.+?) \| (.+?) \|$", section, re.M
    )
    assert len(table) >= 10
    for measure, figure, target, holds in table:
        row = rows[measure]
        assert figure == f"{row['value']:.3g} {row['unit']}", measure
        assert target == (row["target"] or "none"), measure
        assert (
            holds == {True: "yes", False: "no", None: "only reported"}[row["holds"]]
        ), measure
    told = {measure for measure, *_ in table}
    assert {m for m, r in rows.items() if r["holds"] is False} <= told, (
        "what misses its target is said"
    )


def test_no_figure_stands_outside_the_table(section):
    prose = "\n".join(line for line in section.splitlines() if not line.startswith("|"))
    assert not re.findall(r"\d", re.sub(r"`[^`]*`", "", prose))
