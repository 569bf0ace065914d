"""``rag-denoise evaluate`` as a user types it, and the file it writes with ``run`` and both frameworks."""

import json
import re

import pytest
from command_line import command_caller
from json_files import write_json_lines
from openai_server import serving

from denoise_core.cli import main
from denoise_core.evaluate.comparison.setting import load_denoiser


def tower_row(n):
    others = [f"{text} {n}." for text in ("Bananas", "Chess", "Lava", "Rust")]
    return {
        "query": f"When was tower {n} finished?",
        "hits": [others[0], f"Tower {n} was finished in {1800 + n}.", *others[1:]],
        "answers": [str(1800 + n)],
    }


ROWS = [tower_row(n) for n in range(10, 14)]
COLUMNS = "--columns question=query,passages=hits --columns answers=answers"
EVALUATE = f"evaluate questions.jsonl {COLUMNS}"


class Selects:
    """A model that names the passage about the tower of the question."""

    def reply(self, text):
        (number,) = re.findall(r"When was tower (\d+)", text)
        return re.search(rf"(?m)^(\S+) Tower {number} was finished", text)[1], 10


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs a line that has to succeed; returns what it prints and what it says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "notes").mkdir()
    write_json_lines(tmp_path / "questions.jsonl", "{broken", *ROWS)
    rows = [{"question": row["query"], "passages": row["hits"]} for row in ROWS]
    write_json_lines(tmp_path / "plain.jsonl", *rows)
    call = command_caller(main, capsys, monkeypatch)

    def run(line, expected_status=0):
        status, out, err = call(line)
        assert status == expected_status, err
        return out, err

    return run


def check_costs(command, line, server, calls):
    """A dry run says how many calls, and makes none."""
    said = "".join(command(f"{line} --dry-run"))
    assert f"about {calls} calls" in said
    assert "to write; no call was made" in said
    assert server.requests == []


def test_a_table_a_page_all_figures_and_a_setting_that_runs(command, tmp_path):
    out, err = command(f"{EVALUATE} -o found")
    assert "Line 1: left out: not JSON" in out
    shown = ("strategy", "everything", "BM25", "Recommended (*)", "no difference found")
    for text in shown:
        assert text in out
    assert "hurt/help" not in out, "nobody answered"
    assert max(map(len, out.split("4 questions;")[0].splitlines())) <= 80
    found = tmp_path / "found"
    record = json.loads((found / "results.json").read_text("utf-8"))
    assert record["problems"][0]["line_number"] == 1
    assert len(record["by_question"]["default"]) == 4
    page = (found / "report.html").read_text("utf-8")
    assert "<script" not in page
    assert "Recommended" in page
    (tmp_path / "hits.txt").write_text("\n\n".join(ROWS[0]["hits"]))
    question = f"-q '{ROWS[0]['query']}' -p hits.txt"
    assert command(f"run {question} --denoiser found/denoise.json")[0]
    assert "use it: in Python" in err
    assert "Recommended (*): first" in out


@pytest.mark.enable_socket
def test_a_model_labels_and_documents_alone_give_questions(command, tmp_path):
    with serving(Selects()) as server:
        line = f"evaluate plain.jsonl --label-with {server.url}#m"
        check_costs(command, line, server, len(ROWS))
        out, _ = command(line)
    assert len(server.requests) == len(ROWS)
    assert "gold passages of 4 questions are those that" in out.casefold()
    for n, row in enumerate(ROWS):
        text = f"{row['hits'][1]} Many people of the town came to see it on that day. It rained."
        (tmp_path / "notes" / f"{n}.md").write_text(text)
    out, _ = command("evaluate --documents notes -n 3 -k 4")
    assert "sentences taken out of the documents" in out
    line = f"evaluate --documents notes --label-with {UNREACHABLE}#m"
    _, err = command(line, expected_status=2)
    assert "--label-with labels your questions: name their file" in err


@pytest.mark.enable_socket
def test_a_model_labels_questions_and_a_denoiser_is_calibrated_on_them(
    command, tmp_path
):
    """Labels lie beside the questions; what a person corrects there is taken without asking the model again."""
    questions = [tower_row(n)["query"] for n in range(20)]
    (tmp_path / "asked.txt").write_text("\n".join(questions))
    for n in range(20):
        text = f"Tower {n} was finished in {1800 + n} by the river. Chess came to tower {n} in May.\n"
        (tmp_path / "notes" / f"{n}.md").write_text(text)
    unlabelled = "calibrate asked.txt --documents notes"
    labels = tmp_path / "asked.labels.jsonl"
    with serving(Selects()) as server:
        line = f"{unlabelled} -k 6 --label-with {server.url}#m"
        check_costs(command, line, server, 20)
        out, _ = command(f"{line} -o mine")
        assert len(server.requests) == 20
        table_lines = [line for line in out.splitlines() if line.startswith(" ")]
        assert max(map(len, table_lines)) <= 80
        first, *rest = map(json.loads, labels.read_text().splitlines())
        first["question"] = "When was the first tower finished?"
        write_json_lines(labels, first, *rest)
        _, err = command(f"{line} -o again")
        assert "labels are those in asked.labels.jsonl" in err
        labels.unlink()
        command(f"{line} -o once-more")  # every call is known
        assert len(server.requests) == 20
    labels.unlink()
    command(unlabelled, expected_status=2)
    assert load_denoiser(tmp_path / "mine") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("questions.jsonl", "no question can be used"),
        ("questions.jsonl --columns question", "expected OURS=YOURS"),
        ("--columns question=query", "goes with questions of your own"),
        ("runs", "cannot be read"),
        ("--s2a select", "name one with --llm"),
        ("--llm http://127.0.0.1:9/v1", "such as http://127.0.0.1:9/v1#my-model"),
        ("--right judge", "--right judge asks a model"),
        ("questions.jsonl --out questions.jsonl", "expected a folder"),
        # A folder that is there, and in which nobody can make a file.
        ("--out /proc/self", "'/proc/self/"),
    ],
)
def test_what_cannot_be_used_ends_in_one_line(command, arguments, message):
    _, err = command(f"evaluate {arguments}", expected_status=2)
    assert message in err


UNREACHABLE = "http://127.0.0.1:9/v1"


@pytest.mark.enable_socket
def test_an_unreachable_model_is_named_and_what_is_kept_is_measured(command, tmp_path):
    line = f"{EVALUATE} --llm {UNREACHABLE}#m --s2a select -o found"
    out, _ = command(line, expected_status=1)
    assert f"{UNREACHABLE} could not be reached: start the server" in out
    assert "no gold passages" not in out
    record = json.loads((tmp_path / "found" / "results.json").read_text("utf-8"))
    _, default, *_, select = record["strategies"]
    assert default["needed_kept"]["count"] == len(select["failures"]) == len(ROWS)


@pytest.mark.enable_socket
def test_where_no_question_is_labelled_no_labels_are_stored(command, tmp_path):
    line = f"calibrate plain.jsonl --label-with {UNREACHABLE}#m"
    _, err = command(line, expected_status=2)
    assert "no question was labelled: it could not be labelled: Server" in err
    assert not (tmp_path / "plain.labels.jsonl").exists()
