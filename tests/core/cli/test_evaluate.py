"""``rag-denoise evaluate`` as a user types it, and the file it writes with ``run`` and both frameworks."""

import json

import pytest
from command_line import command_caller
from openai_server import serving

from denoise_core.cli import main
from denoise_core.evaluate.comparison.setting import load_denoiser

ROWS = [
    {
        "query": f"When was tower {n} finished?",
        "hits": [
            f"Bananas {n}.",
            f"Tower {n} was finished in {1800 + n}.",
            f"Chess {n}.",
            f"Lava {n}.",
            f"Rust {n}.",
        ],
        "answers": [str(1800 + n)],
    }
    for n in range(10, 14)
]


COLUMNS = "--columns question=query,passages=hits --columns answers=answers"
EVALUATE = f"evaluate questions.jsonl {COLUMNS}"


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "questions.jsonl").write_text(
        "{broken\n" + "\n".join(map(json.dumps, ROWS)), "utf-8"
    )
    return command_caller(main, capsys, monkeypatch)


def test_a_table_a_page_all_figures_and_a_setting_that_runs(command, tmp_path):
    status, out, err = command(f"{EVALUATE} -o found")
    assert status == 0, err
    assert "left out: line 1: not JSON" in err
    for reply_text in (
        "strategy",
        "everything",
        "BM25",
        "Recommended (*)",
        "no difference found".capitalize(),
    ):
        assert reply_text in out
    assert "hurt/help" not in out, "nobody answered"
    assert max(map(len, out.split("4 questions;")[0].splitlines())) <= 80
    record = json.loads((tmp_path / "found/results.json").read_text("utf-8"))
    assert record["rejected_records"][0]["line_number"] == 1
    assert len(record["by_question"]["default"]) == 4
    page = (tmp_path / "found/report.html").read_text("utf-8")
    assert "<script" not in page
    assert "Recommended" in page
    question = ROWS[0]["query"]
    line = f"run -q '{question}' -p questions.jsonl --denoiser found/denoise.json"
    status, out, err = command(f"{line} --skip-bad")
    assert status in (0, 3), err


def test_a_dry_run_says_what_it_would_cost_and_makes_no_call(command, tmp_path):
    model = "--llm http://127.0.0.1:9/v1#m --dry-run"
    status, out, err = command(f"{EVALUATE} {model}")
    assert status == 0, err
    assert "calls" in out
    assert "to write; no call was made" in out
    assert not (tmp_path / "denoise-evaluation").exists()


@pytest.mark.enable_socket
def test_a_model_labels_and_documents_alone_give_questions(command, tmp_path):
    class Selects:
        def reply(self, text):
            return next(
                line.split()[0]
                for line in text.splitlines()
                if "was finished in" in line
            ), 10

    rows = [{"question": r["query"], "passages": r["hits"]} for r in ROWS]
    (tmp_path / "plain.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with serving(Selects()) as server:
        line = f"evaluate plain.jsonl --label-with {server.url}#m"
        status, out, err = command(f"{line} --dry-run")
        assert (status, server.requests) == (0, []), err
        assert f"about {len(ROWS)} calls" in out
        status, out, err = command(line)
        assert status == 0, err
    assert len(server.requests) == len(ROWS)
    assert "4 by a model's labels" in out
    (tmp_path / "notes").mkdir()
    for n, r in enumerate(ROWS):
        text = f"{r['hits'][1]} Many people of the town came to see it on that day. It rained."
        (tmp_path / "notes" / f"{n}.md").write_text(text)
    status, out, err = command("evaluate --documents notes -n 3 -k 4")
    assert status == 0, err
    assert "sentences taken out of the documents" in out


@pytest.mark.enable_socket
def test_a_model_labels_questions_and_a_denoiser_is_calibrated_on_them(
    command, tmp_path
):
    """Labels lie beside the questions; what a person corrects there is taken without asking the model again."""

    class Selects:
        def reply(self, text):
            seen_prompts = next(
                line for line in text.splitlines() if line.startswith("When was tower")
            )
            name = seen_prompts.split()[3]
            return next(
                (
                    p.split()[0]
                    for p in text.splitlines()
                    if f"Tower {name} was finished" in p
                ),
                "NONE",
            ), 10

    (tmp_path / "asked.txt").write_text(
        "\n".join(f"When was tower {n} finished?" for n in range(24))
    )
    (tmp_path / "notes").mkdir()
    for n in range(24):
        text = f"Tower {n} was finished in {1800 + n} by the river. Chess came to tower {n} in May.\n"
        (tmp_path / "notes" / f"{n}.md").write_text(text)
    with serving(Selects()) as server:
        unlabelled = "calibrate asked.txt --documents notes"
        line = f"{unlabelled} -k 6 --label-with {server.url}#m"
        status, _, err = command(f"{line} --dry-run")
        assert (status, server.requests) == (0, []), err
        assert "about 24 calls" in err
        assert "to write; no call was made" in err
        status, out, err = command(f"{line} -o mine")
        assert status == 0, err
        assert len(server.requests) == 24
        assert "about 24 calls" in err
        assert max(map(len, out.split("weights:")[0].splitlines())) <= 80
        assert "labelled" in out
        labels = tmp_path / "asked.labels.jsonl"
        lines = [json.loads(line) for line in labels.read_text().splitlines()]
        lines[0]["question"] = "When was the first tower finished?"
        labels.write_text("\n".join(map(json.dumps, lines)))
        status, out, err = command(f"{line} -o again")
        assert "labels are those in asked.labels.jsonl" in err
        labels.unlink()
        assert command(f"{line} -o once-more")[0] == 0  # every call is known
        assert len(server.requests) == 24
    labels.unlink()
    assert command(unlabelled)[0] == 2
    assert load_denoiser(tmp_path / "mine") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("questions.jsonl", "no question can be used"),
        ("questions.jsonl --columns question", "expected OURS=YOURS"),
        ("--columns question=query", "goes with questions of your own"),
        ("runs", "cannot be read"),
        ("missing.jsonl", "cannot be read"),
        ("--s2a select", "name one with --llm"),
        ("--llm http://127.0.0.1:9/v1", "expected the model's name too"),
        ("--right judge", "--right judge asks a model"),
        ("questions.jsonl --out questions.jsonl", "expected a folder"),
    ],
)
def test_what_cannot_be_used_ends_in_one_line(command, arguments, message):
    status, _, err = command(f"evaluate {arguments}")
    assert status == 2
    assert message in err
