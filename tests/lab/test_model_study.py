"""END's tables on a local model, from one command: every table, the picture, and a run that goes on."""

import json

import pytest
from json_files import write_json_lines
from tiny_models import save_tiny_pair
from typer.testing import CliRunner

from denoise_core import InputError
from denoise_lab.command import app
from denoise_lab.protocols.model_study import read_study_sets

TABLES = {
    "layers": {"layer", "pooling", "AUC", "operations", "chosen"},
    "prompts": {"prompt", "fitted on", "AUC", "gold in 30 %"},
    "controls": {"weights", "AUC"},
    "tasks": {"task", "fitted on", "AUC"},
    "scorers": {"scorer", "AUC", "CPU seconds"},
    "answers": {"read", "answer found", "log likelihood of the answer"},
}


def write_questions(path, count=8):
    """The passage that is needed ends loudly."""
    records = []
    for number in range(count):
        texts = [f"note {number} {place}" for place in range(3)]
        gold = number % 3
        texts[gold] += " it is red!!!"
        record = {
            "question": f"what {number}?",
            "passages": texts,
            "gold": [gold],
        }
        records.append(record)
    record["answers"] = ["red"]  # one is answered, since answering takes longest
    return write_json_lines(path, *records)


def test_every_table_is_measured_and_written(tmp_path):
    data = write_questions(tmp_path / "mine.jsonl")
    save_tiny_pair(tmp_path / "model")
    out = tmp_path / "out"
    line = f"protocol end {data} --model {tmp_path}/model -n 4 --layer 1 --layer 3 --out {out}"
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "results.json").read_text())
    assert set(record["tables"]) == set(TABLES)
    for name, keys in TABLES.items():
        for row in record["tables"][name]:
            assert keys <= set(row), name
    layers = record["tables"]["layers"]
    assert {row["layer"] for row in layers} == {1, 3}
    assert [row["chosen"] for row in layers].count("chosen") == 1
    prompts = record["tables"]["prompts"]
    assert {(row["prompt"], row["fitted on"]) for row in prompts} >= {
        ("scq", "scq"),
        ("qsc", "scq"),
        ("qsc", "qsc"),
    }
    assert record["questions measured"] == record["questions fitted on"] == 4
    assert "## Layers and poolings" in (out / "tables.md").read_text()
    assert (out / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert "layers, fitting: 4 of 4" in result.output


def test_sets_are_halved_and_too_few_questions_refused(tmp_path):
    data = write_questions(tmp_path / "mine.jsonl", 7)
    ((fitting, measured),) = read_study_sets(data, 20).values()
    assert len(fitting) == len(measured) == 3
    assert {q.text for q in fitting}.isdisjoint(q.text for q in measured)
    write_questions(tmp_path / "nq_gold_distractors20.jsonl")
    assert list(read_study_sets(tmp_path, 2)) == ["NQ"]
    with pytest.raises(InputError, match="expected 4 or more"):
        read_study_sets(write_questions(tmp_path / "few.jsonl", 3), 2)
