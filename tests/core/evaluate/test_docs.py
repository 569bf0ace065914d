"""docs/evaluate.md: its code runs from top to bottom on the line it shows, and names what is there."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from denoise_core.cli import load_app
from denoise_core.evaluate.comparison import evaluate, read_cases
from denoise_lab.command import app as lab

PAGE = Path(__file__).parents[3] / "docs" / "evaluate.md"


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch):
    page = PAGE.read_text("utf-8")
    (line,) = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("questions.jsonl").write_text(f"{line}\n{line}\n", "utf-8")
    Path("denoise-evaluation").mkdir()
    evaluation = evaluate(read_cases("questions.jsonl"))
    evaluation.save_setting("denoise-evaluation/denoise.json")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["result"].passages
    assert names["found"].figures_for("shortest").questions == 2
    assert json.loads(Path("denoise.json").read_text("utf-8"))["denoiser"]
    assert Path("report.html").stat().st_size < 2_000_000


def test_every_option_it_speaks_of_is_there():
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    help_text = runner.invoke(load_app("evaluate"), ["evaluate", "--help"]).output
    help_text += runner.invoke(lab, ["protocol", "--help"]).output
    options = set(re.findall(r"`(--[a-z][a-z-]+)", PAGE.read_text("utf-8")))
    for option in options - {"--no-deps"}:
        assert option in help_text, option
