"""The command as a user types it: output, one-line errors with status 2, help that teaches."""

import io
import json
import shlex
import subprocess
import sys
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import command_caller, python_output
from json_files import write_json_lines
from readings import short_questions
from rich.console import Console

import denoise_core
from denoise_core.cli import COMMAND_MODULES, main, terminal
from denoise_lab.noisy_retrieval import write_questions

PASSAGES = [
    {
        "id": "tower",
        "title": "Eiffel Tower",
        "text": "The Eiffel Tower was finished in 1889.",
    },
    {"id": "fruit", "text": "Bananas are rich in potassium."},
    {"id": "rtl", "text": "مرحبا بالعالم 😀"},
]


@pytest.fixture
def source(tmp_path):
    return str(write_json_lines(tmp_path / "passages.jsonl", *PASSAGES))


@pytest.fixture
def command(capsys, monkeypatch):
    return command_caller(main, capsys, monkeypatch, columns="100")


@pytest.fixture
def run(command):
    """Asks about the tower with words in common, in a run that has to succeed."""

    def call(line, expected_status=0):
        question = "When was the Eiffel Tower finished?"
        done = command(f"run -q '{question}' --method bm25 {line}")
        assert done.returncode == expected_status, done.stderr
        return done

    return call


def test_the_installed_command_starts_and_ends_with_its_status():
    program = Path(sys.executable).with_name("rag-denoise")
    line = [program, *shlex.split("run -q x -p missing.txt")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rag-denoise: cannot read 'missing.txt'")


def test_json_output_is_one_object_with_exact_spans(run, source):
    record = json.loads(run(f"-p {source} --keep 1 --json").stdout)
    (kept,) = record["passages"]
    tower = PASSAGES[0]
    assert (kept["id"], kept["text"]) == ("tower", tower["text"])
    assert kept["spans"] == [{"id": "tower", "start": 0, "end": len(tower["text"])}]
    assert [dropped["id"] for dropped in record["dropped"]] == ["fruit", "rtl"]
    assert record["kept"][0]["score"] > 0


def test_people_see_what_was_kept_and_why_the_rest_was_not(run, source, monkeypatch):
    explained = run(f"-p {source} --keep 0.3 --why")
    assert (
        explained.stderr
        == "kept 45.8 % of the text (passages: 3); dropped pieces: 2; list them: --why\n"
    )
    assert "+ The Eiffel Tower was finished in 1889." in explained.stdout
    assert "- Bananas are rich in potassium." in explained.stdout
    assert "not among the best 30 %" in explained.stdout
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    printed = run(f"-p {source} --keep 0.3").stdout
    assert "The Eiffel Tower was finished in 1889." in printed
    assert "Bananas are rich" not in printed


def test_a_terminal_gets_the_kept_text_first_and_at_most_a_screen(
    run, tmp_path, monkeypatch
):
    for number in range(100):
        (tmp_path / f"{number}.txt").write_text(f"Note {number}: rain fell all day.")
    tower_lines = [f"The Eiffel Tower has stair {n}." for n in range(60)]
    (tmp_path / "tower.txt").write_text("\n\n".join(tower_lines))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("LINES", "24")
    printed = run(f"-p {tmp_path} --keep 50").stdout
    lines = printed.splitlines()
    assert len(lines) <= 24
    assert "The Eiffel Tower has stair" in "".join(lines[:5])
    assert "more lines" in printed


HANDBOOK = (
    "# Handbook\n\n## Travel\n\nTrains are second class.\n\nFlights need a reason.\n\n"
    "## Pay\n\nSalaries come late.\n"
)


def test_standard_input_is_cut_and_a_line_says_how_much_was_kept(command):
    line = "run -q 'trains or flights need what?' -p - --method bm25 --keep 2"
    completed_run = command(line, stdin=HANDBOOK)
    assert (
        completed_run.stderr
        == "kept 72.3 % of the text (passages: 1); dropped pieces: 1; list them: --why\n"
    )
    assert "Salaries" not in completed_run.stdout
    reason = command(f"{line} --why", stdin=HANDBOOK).stdout
    assert "not among the best 2, score" in reason


def test_no_passages_have_a_status_of_their_own(run, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    printed = run(f"-p {tmp_path}/empty.jsonl --json", expected_status=3).stdout
    assert json.loads(printed)["passages"] == []


def test_bad_lines_are_left_out_on_demand_and_said_on_standard_error(run, tmp_path):
    path = write_json_lines(tmp_path / "p.jsonl", PASSAGES[0], "{broken")
    done = run(f"-p {path} --json --skip-bad")
    assert json.loads(done.stdout)["passages"][0]["id"] == "tower"
    assert "line 2" in done.stderr


KEEP = "expected a whole number of chunks"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run -q x -p missing.txt", "no such file or folder"),
        ("run -q '  ' -p {source}", "--query is empty"),
        *((f"run -q x -p {{source}} --keep {keep}", KEEP) for keep in
          ("nan", "100%")),
        ("run -q x -p {source} --keep 0", "expected 1 chunk or more"),
        ("run -q x -p {source} --method s2a-select", "name one with --llm"),
        ("run -q x -p {source} --method bm25 --llm x",
         "the method that asks one: --method s2a-select"),
        ("run -q x -p {source} --method s2a-select --llm x --keep 0.5",
         "the model decides"),
        ("run -q x -p {source} --method bm25 --keep auto", "pass a share"),
        ("run -q x -p {source} --method magic",
         "none of end, bm25, embedding, s2a-select"),
        ("run -q x -p {source} --denoiser nope.json",
         "--denoiser nope.json: no such file or folder"),
        ("run -q x -p {source} --method bm25 --tokens 12 --keep 2",
         "leave --keep out"),
        ("run -q x -p {source} --denoiser {source} --tokens 12",
         "--tokens is for end, bm25, embedding"),
        *((f"{line} --html missing/x.html", "there is no folder") for line in
          ("run -q x -p {source}", "check -a {source} -p {source}")),
        ("run -q x -p {source} --html {folder}", "expected a file"),
        *((f"{line} {{binary}}", "cannot read") for line in
          ("report", "record --llm x o.jsonl", "check -p {source} -a")),
        ("fit {source} -o {folder}/new --dry-run", "add --label-with"),
        ("evaluate --cross-encoder missing -o {binary}/new", "Not a directory"),
        ("fit missing.jsonl -o {folder}", "choose another folder"),
    ],
)  # fmt: skip
def test_errors_are_one_line_that_names_the_fix(command, source, line, message):
    folder = Path(source).parent
    binary = folder / "logo.bin"
    binary.write_bytes(b"\x89PNG\0\xff")
    values = {"source": source, "folder": folder, "binary": binary}
    completed_run = command(line.format(**values))
    assert completed_run.returncode == 2
    assert message in completed_run.stderr
    assert len(completed_run.stderr.strip().splitlines()) == 1
    assert completed_run.stdout == ""


def test_the_doctor_names_what_is_missing_and_what_to_type(command, monkeypatch):
    completed_run = command("doctor")
    assert completed_run.returncode == 0
    title, *lines = completed_run.stdout.splitlines()
    assert title.startswith(f"rag-denoise {denoise_core.__version__}, Python 3.")
    assert "cli: ready (this command)" in lines
    extras = set(metadata.metadata("rag-denoise").get_all("Provides-Extra"))
    assert extras - {line.partition(":")[0] for line in lines} == {"all"}
    known_version = metadata.version

    def version_without_httpx(name):
        if name == "httpx":
            raise metadata.PackageNotFoundError(name)
        return known_version(name)

    monkeypatch.setattr(metadata, "version", version_without_httpx)
    printed = command("doctor").stdout
    assert "remote: httpx missing" in printed
    assert "pip install 'rag-denoise[remote]'" in printed


@pytest.mark.parametrize("verb", COMMAND_MODULES)
def test_every_verb_has_help_that_fills_the_lines_of_a_terminal(
    command, monkeypatch, verb
):
    monkeypatch.setenv("COLUMNS", "80")
    prose, _, options = command(f"{verb} --help").stdout.partition("╭")
    assert f"rag-denoise {verb}" in prose
    assert "--help" in options
    for line, next_line in pairwise(map(str.rstrip, prose.splitlines())):
        if line and next_line:
            assert len(f"{line} {next_line.split()[0]}") > 78


def test_the_version_is_printed_without_a_verb(command):
    assert command("--version")[:2] == (0, f"{denoise_core.__version__}\n")


def test_what_passages_hold_cannot_act_on_the_terminal(run, tmp_path):
    acting = {
        "text": "hi \x1b[2J\x1b]0;owned\x07 \u202e",
        "id": "\x1b[31mred",
        "title": "[bold]t[/x]",
    }
    path = write_json_lines(tmp_path / "p.jsonl", acting, acting)
    done = run(f"-p {path} --why")
    assert not set("\x1b\x07\u202e") & set(done.stdout + done.stderr)
    assert "[bold]t[/x]" in done.stdout
    assert "==> \ufffd[31mred" in run(f"-p {path} --keep 2").stdout


def test_a_fit_shows_what_it_needs_beside_its_rivals_and_is_not_overwritten_unasked(
    command, tmp_path
):
    write_questions(tmp_path / "data.jsonl", short_questions(30, 3, 500))
    fit = f"fit {tmp_path}/data.jsonl -o {tmp_path}/mine"
    completed_run = command(fit)
    assert completed_run.returncode == 0, completed_run.stderr
    printed = completed_run.stdout
    for name in ("fitted", "default", "cosine", "BM25", "90%"):
        assert name in printed
    assert "is calibrated on" in printed
    second_result = command(fit)
    assert second_result.returncode == 2
    assert "--overwrite" in second_result.stderr
    assert command(f"{fit} --overwrite").returncode == 0


def test_a_verb_is_loaded_alone():
    program = (
        "import sys; from denoise_core.cli import load_app; load_app('run'); "
        "print([m for m in sys.modules if m.startswith('denoise_core.cli.')])"
    )
    loaded = python_output("-c", program)
    assert "denoise_core.cli.run'" in loaded
    assert "denoise_core.cli.fit'" not in loaded


def test_a_pipe_gets_the_kept_text_alone_and_unwrapped(run, tmp_path):
    sentence = "The Eiffel Tower was finished in 1889, after two years of work by three hundred workers."
    text = " ".join([sentence] * 3)
    for name, content in (("one", text), ("two", "Bananas are rich in potassium.")):
        (tmp_path / f"{name}.txt").write_text(content)
    line = f"-p {tmp_path}/one.txt -p {tmp_path}/two.txt --keep 1"
    assert run(line).stdout == text + "\n"
    assert run(f"{line} --html {tmp_path}/page.html").stdout == text + "\n"
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<del" in page
    assert "<mark" in page
    both = run(line.replace("--keep 1", "--keep 2"))
    names = [name for name in both.stdout.splitlines() if name.startswith("==>")]
    assert names == ["==> one.txt <==", "==> two.txt <=="]


@pytest.mark.parametrize("color", ["1", ""])
def test_only_a_terminal_gets_marks_for_control_characters(
    run, tmp_path, monkeypatch, color
):
    text = "\f  The Eiffel Tower\x0c was\r finished \u202b\x1b[31m\x9b in 1889."
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert run(f"-p {tmp_path}/a.txt --keep 1").stdout == text + "\n"
    monkeypatch.setenv("FORCE_COLOR", color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    printed = run(f"-p {tmp_path}/a.txt --keep 1").stdout
    assert "Tower\ufffd was\ufffd finished \ufffd\ufffd[31m\ufffd in" in printed
    spelt = run(f"-p {tmp_path}/a.txt --keep 1 --json").stdout
    assert "was\\r finished \\u202b\\u001b[31m\\u009b in" in spelt
    assert json.loads(spelt)["passages"][0]["text"] == text


def test_tokens_bound_what_is_kept(run, source):
    assert run(f"-p {source} --tokens 12").stdout.strip() == PASSAGES[0]["text"]


def test_nothing_relevant_has_a_status_of_its_own(run, tmp_path):
    texts = ("qqq zzz www", "xx yy", "vv ww rr", "kk jj", "lorem ipsum dolor")
    path = write_json_lines(tmp_path / "p.jsonl", *({"text": text} for text in texts))
    done = run(f"-p {path} --method end", expected_status=4)
    assert "nothing relevant" in done.stderr


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_pipe_hears_of_progress_now_and_then(seconds, monkeypatch):
    monkeypatch.setattr(terminal, "LINE_SECONDS", seconds)
    console = Console(file=io.StringIO())
    with terminal.progress_bar(console, "reading pieces") as on_progress:
        on_progress(1_000, 40_000)
        on_progress(2_000, None)
    lines = console.file.getvalue().splitlines()
    expected = ["reading pieces: 1,000 of 40,000", "reading pieces: 2,000"]
    assert lines == ([] if seconds else expected)
