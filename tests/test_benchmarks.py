"""Every benchmark runs in its quick form and reports rows of the agreed shape."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
RUN = runpy.run_path(str(FOLDER / "run.py"))
SCRIPTS = RUN["scripts"]()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_quick_form_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS[name]), "--quick"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=RUN["environment"](),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
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
    tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(str(FOLDER))
    import engines
    from _engine_shapes import DECODERS, ENCODER, export_shape

    for shape in (*DECODERS, ENCODER):
        scores = export_shape(shape, tmp_path / shape).score(
            "who wrote it", ["Rain fell all day.", "A clerk did.", ""]
        )
        assert len(set(scores.tolist())) == 3
        assert json.loads((tmp_path / shape / "config.json").read_text())[
            "architectures"
        ]
    with pytest.raises(SystemExit):
        engines.main(["--engine", str(tmp_path / "python")])
    assert "`make engines` makes it" in capsys.readouterr().err
    record = json.loads((FOLDER / "results" / "engines.json").read_text())
    assert "vllm" in record["about"]["engine"]
    parts = {row["measure"].split(":")[0] for row in record["rows"]}
    assert parts == {*DECODERS, ENCODER, "replicas"}


@pytest.mark.parametrize("name", ["ours", "RetryQueryEngine"])
def test_both_engines_repair_an_answer_that_the_rule_refutes(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from llama_index.core import Settings
    from llamaindex_peers import (
        RIGHT_ANSWER,
        ScriptedModel,
        answer_after_feedback,
        ask_engine,
    )

    monkeypatch.setattr(Settings, "_llm", None)
    model = ScriptedModel(reply=answer_after_feedback)
    assert RIGHT_ANSWER in str(ask_engine(name, model))
    assert model.calls == 2
