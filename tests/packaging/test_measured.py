"""The figures that benchmarks/README.md quotes are those of the results files, and those that miss are there."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = {"LlamaIndex": "llamaindex_peers"}


def rows_of(bench):
    found = json.loads(
        (ROOT / "benchmarks" / "results" / f"{bench}.json").read_text("utf-8")
    )["rows"]
    return {r["measure"]: r for r in found}


def section_text(section):
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    return re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


@pytest.mark.parametrize("section", SECTIONS)
def test_figures_are_those_of_the_results_file(section):
    rows = rows_of(SECTIONS[section])
    table = re.findall(
        r"^\| (?!measure|---)(.+?) \| (.+?) \| (.+?) \| (.+?) \|$",
        section_text(section),
        re.M,
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


@pytest.mark.parametrize("section", SECTIONS)
def test_no_figure_stands_outside_the_table(section):
    prose = "\n".join(
        line for line in section_text(section).splitlines() if not line.startswith("|")
    )
    assert not re.findall(r"\d", re.sub(r"`[^`]*`", "", prose))
