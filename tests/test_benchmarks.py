"""Every benchmark runs in its quick form and reports rows of the agreed shape."""

import json
import runpy
import sys

import pytest
from code_measures import ROOT
from command_line import python_output

FOLDER = ROOT / "benchmarks"
SCRIPTS = runpy.run_path(str(FOLDER / "run.py"))["scripts"]()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_quick_form_runs(name, tmp_path):
    python_output(SCRIPTS[name], "--quick", cwd=tmp_path)
    record = json.loads((tmp_path / f"{name}.quick.json").read_text())
    assert record["rows"]
    for row in record["rows"]:
        assert set(row) == {"measure", "value", "unit", "target", "holds", "interval"}
        assert (row["target"] is None) == (row["holds"] is None)


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "results").glob("*.json")), ids=lambda p: p.stem
)
def test_published_results_are_of_full_runs_and_name_their_versions(path):
    record = json.loads(path.read_text())
    assert record["benchmark"] == path.stem
    assert record["quick"] is False
    assert record["versions"]
    assert record["rows"]


def test_what_engines_serves_is_exported_and_what_is_missing_is_said(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(FOLDER))
    import engines
    from _engine_shapes import DECODERS, export_shape

    for shape in DECODERS:
        scores = export_shape(shape, tmp_path / shape).score(
            "who wrote it", ["Rain fell all day.", "A clerk did.", ""]
        )
        assert len(set(scores.tolist())) == 3
        assert json.loads((tmp_path / shape / "config.json").read_text())[
            "architectures"
        ]
    arguments = ["engines.py", "--engine", str(tmp_path / "python")]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match="`make engines` makes it"):
        engines.main()
    record = json.loads((FOLDER / "results" / "engines.json").read_text())
    assert "vllm" in record["about"]["engine"]
    parts = {row["measure"].split(":")[0] for row in record["rows"]}
    assert parts == {*DECODERS, "replicas"}
