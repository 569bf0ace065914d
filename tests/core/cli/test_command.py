"""The command as a user types it: output, one-line errors with status 2, help that teaches."""

import io
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import pytest

import denoise_core
from denoise_core._files import write_whole
from denoise_core.cli import COMMAND_MODULES, main
from denoise_core.embedded import sample_questions
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
    path = tmp_path / "passages.jsonl"
    path.write_text("\n".join(map(json.dumps, PASSAGES)), encoding="utf-8")
    return str(path)


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(capsys, monkeypatch):
    """The command in this process: what it printed and its exit status."""

    def call(*arguments, stdin=""):
        monkeypatch.setattr("sys.argv", ["rag-denoise", *arguments])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as end_seen:
            main()
        return Done(end_seen.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def run(command):
    return lambda *a, **k: command(
        "run", "-q", "When was the Eiffel Tower finished?", *a, **k
    )


def test_the_installed_command_starts_and_ends_with_its_status():
    completed_run = subprocess.run(
        [
            Path(sys.executable).with_name("rag-denoise"),
            "run",
            "-q",
            "x",
            "-p",
            "missing.txt",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (completed_run.returncode, completed_run.stdout) == (2, "")
    assert completed_run.stderr.startswith("rag-denoise: cannot read 'missing.txt'")


def test_json_output_is_one_object_with_exact_spans(run, source):
    completed_run = run("-p", source, "--method", "bm25", "--keep", "1", "--json")
    assert completed_run.returncode == 0, completed_run.stderr
    record = json.loads(completed_run.stdout)
    (kept_items,) = record["passages"]
    assert (kept_items["id"], kept_items["text"]) == ("tower", PASSAGES[0]["text"])
    assert kept_items["spans"] == [
        {"id": "tower", "start": 0, "end": len(PASSAGES[0]["text"])}
    ]
    assert [d["id"] for d in record["dropped"]] == ["fruit", "rtl"]
    assert record["kept"][0]["score"] > 0


def test_people_see_what_was_kept_and_why_the_rest_was_not(run, source, monkeypatch):
    completed_run = run("-p", source, "--method", "bm25", "--keep", "0.3", "--why")
    assert completed_run.returncode == 0
    assert completed_run.stderr == "kept 46 % of 3 passages; dropped 2 pieces\n"
    assert "+ The Eiffel Tower was finished in 1889." in completed_run.stdout
    assert "- Bananas are rich in potassium." in completed_run.stdout
    assert "not among the best 30 %" in completed_run.stdout
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    plain_result = run("-p", source, "--method", "bm25", "--keep", "0.3").stdout
    assert "The Eiffel Tower was finished in 1889." in plain_result
    assert "Bananas are rich" not in plain_result
    assert "dropped 2 pieces of 2 passages (list them: --why)" in plain_result


def test_a_terminal_gets_the_kept_text_first_and_at_most_a_screen(
    command, tmp_path, monkeypatch
):
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text(f"Note {number}: rain fell all day.")
    tower_lines = [f"The Eiffel Tower has stair {n}." for n in range(60)]
    (tmp_path / "tower.txt").write_text("\n\n".join(tower_lines))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("LINES", "24")
    arguments = ["run", "-q", "Eiffel Tower stairs", "-p", str(tmp_path)]
    printed = command(*arguments, "--method", "bm25", "--keep", "50").stdout
    lines = printed.splitlines()
    assert len(lines) <= 24
    assert "The Eiffel Tower has stair" in "".join(lines[:5])
    assert "more lines" in printed
    assert "pieces of 301 passages" in printed


HANDBOOK = (
    "# Handbook\n\n## Travel\n\nTrains are second class.\n\nFlights need a reason.\n\n"
)
HANDBOOK += "## Pay\n\nSalaries come late.\n"


def test_a_line_says_how_much_was_kept(command):
    seen_prompts = (
        "run",
        "-q",
        "trains or flights need what?",
        "-p",
        "-",
        "--method",
        "bm25",
        "--keep",
        "2",
    )
    completed_run = command(*seen_prompts, stdin=HANDBOOK)
    assert completed_run.stderr == "kept 72 % of 1 passage; dropped 1 piece\n"
    assert "Salaries" not in completed_run.stdout
    reason = command(*seen_prompts, "--why", stdin=HANDBOOK).stdout
    assert "not among the best 2, score" in reason


def test_a_denoiser_that_is_not_there_is_named(run, source):
    completed_run = run("-p", source, "--denoiser", "nope.json")
    assert completed_run.returncode == 2
    assert "--denoiser nope.json: no such file or folder" in completed_run.stderr


def test_text_from_standard_input_is_cut_into_chunks(run):
    text = "The Eiffel Tower was finished in 1889. " * 30 + "Bananas are yellow. " * 60
    record = json.loads(
        run("-p", "-", "--method", "bm25", "--keep", "1", "--json", stdin=text).stdout
    )
    (kept_items,) = record["passages"]
    assert kept_items["text"].startswith("The Eiffel Tower")
    assert (
        text[kept_items["spans"][0]["start"] : kept_items["spans"][0]["end"]]
        == kept_items["text"]
    )
    assert len(record["dropped"]) > 0


def test_no_passages_have_a_status_of_their_own(run, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    completed_run = run(
        "-p", str(tmp_path / "empty.jsonl"), "--method", "bm25", "--json"
    )
    assert (completed_run.returncode, json.loads(completed_run.stdout)["passages"]) == (
        3,
        [],
    )


def test_bad_lines_are_left_out_on_demand_and_said_on_standard_error(run, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(PASSAGES[0]) + "\n{broken\n")
    completed_run = run("-p", str(path), "--method", "bm25", "--json", "--skip-bad")
    assert json.loads(completed_run.stdout)["passages"][0]["id"] == "tower"
    assert "line 2" in completed_run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "missing.txt"], "no such file or folder"),
        (["-p", "{source}", "--keep", "2.5"], "expected a whole number of chunks"),
        (["-p", "{source}", "--keep", "0"], "expected 1 chunk or more"),
        (["-p", "{source}", "--method", "s2a-select"], "name one with --llm"),
        (
            ["-p", "{source}", "--method", "bm25", "--model", "x"],
            "--method bm25 asks no model: leave --model out",
        ),
        (
            ["-p", "{source}", "--method", "s2a-select", "--model", "x"],
            "--method s2a-select asks --llm",
        ),
    ],
)
def test_errors_are_one_line_that_names_the_fix(run, source, arguments, message):
    completed_run = run(*(a.replace("{source}", source) for a in arguments))
    assert completed_run.returncode == 2
    assert message in completed_run.stderr
    assert len(completed_run.stderr.strip().splitlines()) == 1
    assert completed_run.stdout == ""


def test_an_unknown_method_lists_the_known_ones(run, source):
    completed_run = run("-p", source, "--method", "magic")
    assert completed_run.returncode == 2
    assert all(
        name in completed_run.stderr
        for name in ("end", "s2a-select", "bm25", "embedding")
    )


def test_an_empty_question_is_asked_for(command, source):
    completed_run = command("run", "-q", "  ", "-p", source)
    assert (completed_run.returncode, "--query is empty" in completed_run.stderr) == (
        2,
        True,
    )


def test_the_doctor_names_what_is_missing_and_what_to_type(command, monkeypatch):
    completed_run = command("doctor")
    assert completed_run.returncode == 0
    lines = completed_run.stdout.splitlines()
    assert lines[0].startswith(f"rag-denoise {denoise_core.__version__}, Python 3.")
    assert "cli: ready (this command)" in lines
    extras = set(metadata.metadata("rag-denoise").get_all("Provides-Extra"))
    shown_extras = {line.partition(":")[0] for line in lines[1:]}
    assert extras - shown_extras == {"all"}
    known_version = metadata.version

    def version_without_httpx(name):
        if name == "httpx":
            raise metadata.PackageNotFoundError(name)
        return known_version(name)

    monkeypatch.setattr(metadata, "version", version_without_httpx)
    printed = command("doctor").stdout
    assert "remote: httpx missing" in printed
    assert "pip install 'rag-denoise[remote]'" in printed


@pytest.mark.parametrize("verb", ["demo", "run", "serve", "fit", "evaluate"])
def test_help_fills_the_lines_of_a_terminal(command, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    completed_run = command(verb, "--help")
    assert completed_run.returncode == 0
    prose, _, options = completed_run.stdout.partition("╭")
    assert "--help" in options
    for line, next_line in pairwise(prose.splitlines()):
        if line.strip() and next_line.strip():
            next_word = next_line.split()[0]
            assert len(f"{line.rstrip()} {next_word}") > 78


def test_the_version_is_printed_without_a_verb(command):
    completed_run = command("--version")
    assert (completed_run.returncode, completed_run.stdout.strip()) == (
        0,
        denoise_core.__version__,
    )


def test_what_passages_hold_cannot_act_on_the_terminal(run, tmp_path):
    path = tmp_path / "p.jsonl"
    acting = {
        "text": "hi \x1b[2J\x1b]0;owned\x07 \u202e",
        "id": "\x1b[31mred",
        "title": "[bold]t[/x]",
    }
    path.write_text(
        "\n".join(json.dumps(r) for r in (acting, acting)), encoding="utf-8"
    )
    completed_run = run("-p", str(path), "--method", "bm25", "--why")
    assert completed_run.returncode == 0
    assert not set("\x1b\x07\u202e") & set(completed_run.stdout + completed_run.stderr)
    assert "[bold]t[/x]" in completed_run.stdout


def test_keep_is_refused_where_it_would_be_ignored(run, source):
    completed_run = run(
        "-p", source, "--method", "s2a-select", "--llm", "x", "--keep", "0.5"
    )
    assert (completed_run.returncode, "the model decides" in completed_run.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("keep", ["inf", "nan", "-1", "1.5", "1.0", "100%", "some"])
def test_a_keep_that_is_neither_share_nor_number_is_refused(run, source, keep):
    completed_run = run("-p", source, "--method", "bm25", "--keep", keep)
    assert (
        completed_run.returncode,
        len(completed_run.stderr.strip().splitlines()),
    ) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "missing/x.html"], "there is no folder"),
        (["--questions", "0"], "--questions"),
    ],
)
def test_the_demo_refuses_before_it_runs(command, arguments, message):
    completed_run = command("demo", *arguments)
    assert (completed_run.returncode, message in completed_run.stderr) == (2, True)


def test_a_fit_that_could_not_be_saved_is_refused_before_it_runs(command, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    completed_run = command("fit", str(tmp_path / "missing.jsonl"), "-o", str(tmp_path))
    assert (
        completed_run.returncode,
        "choose another folder" in completed_run.stderr,
    ) == (2, True)


def test_a_fit_shows_what_it_needs_beside_its_rivals_and_is_not_overwritten_unasked(
    command, tmp_path
):
    short = []
    for q in sample_questions():
        short.append(
            replace(
                q,
                passages=tuple(
                    p for p in q.passages if p.id in q.gold or len(p.text) < 500
                ),
            )
        )
    write_questions(
        tmp_path / "data.jsonl", [q for q in short if len(q.passages) > 1][:30]
    )
    fit = [
        "fit",
        str(tmp_path / "data.jsonl"),
        "-o",
        str(tmp_path / "mine"),
        "--keep",
        "0.3",
    ]
    completed_run = command(*fit)
    assert completed_run.returncode == 0, completed_run.stderr
    for reply_text in (
        "fitted",
        "default",
        "cosine",
        "BM25",
        "no question",
        "90%",
        "is calibrated on",
    ):
        assert reply_text in completed_run.stdout
    assert "never saw the questions" not in completed_run.stderr
    second_result = command(*fit)
    assert (second_result.returncode, "--overwrite" in second_result.stderr) == (
        2,
        True,
    )
    assert command(*fit, "--overwrite").returncode == 0


def test_an_interrupted_write_leaves_nothing(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    write_whole(target, "new")
    assert target.read_text() == "new"
    write_whole(
        target, "half a character: \ud83d"
    )  # what no file can hold is replaced, and nothing is lost
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert target.read_text("utf-8").startswith("half a character: ")


def test_every_verb_has_help_and_is_loaded_alone():
    program = "import sys; sys.argv = ['rag-denoise', *sys.argv[1:]]\nfrom denoise_core.cli import main\n"
    program += "try: main()\nfinally: print([m for m in sys.modules if m.startswith('denoise_core.cli.')])"
    for verb, module in COMMAND_MODULES.items():
        completed_run = subprocess.run(
            [sys.executable, "-c", program, verb, "--help"],
            capture_output=True,
            text=True,
        )
        assert completed_run.returncode == 0, completed_run.stderr
        assert f"rag-denoise {verb}" in completed_run.stdout
        loaded = completed_run.stdout.splitlines()[-1]
        assert f"denoise_core.cli.{module}'" in loaded
        assert module == "fit" or "denoise_core.cli.fit'" not in loaded


def test_a_pipe_gets_the_kept_text_alone_and_unwrapped(run, tmp_path):
    text = (
        "The Eiffel Tower was finished in 1889, after two years of work by three hundred workers. "
        * 3
    )
    (tmp_path / "one.txt").write_text(text.strip())
    (tmp_path / "two.txt").write_text("Bananas are rich in potassium.")
    files = ["-p", str(tmp_path / "one.txt"), "-p", str(tmp_path / "two.txt")]
    completed_run = run(*files, "--method", "bm25", "--keep", "1")
    assert (completed_run.returncode, completed_run.stdout) == (0, text.strip() + "\n")
    second_result = run(
        *files, "--method", "bm25", "--keep", "1", "--html", str(tmp_path / "page.html")
    )
    assert second_result.stdout == completed_run.stdout
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<del" in page
    assert "<mark" in page


def test_tokens_bound_what_is_kept_and_exclude_keep(run, source):
    completed_run = run("-p", source, "--method", "bm25", "--tokens", "12")
    assert (completed_run.returncode, completed_run.stdout.strip()) == (
        0,
        PASSAGES[0]["text"],
    )
    both = run("-p", source, "--method", "bm25", "--tokens", "12", "--keep", "2")
    assert (both.returncode, "leave --keep out" in both.stderr) == (2, True)
    own_value = run("-p", source, "--denoiser", "mine", "--tokens", "12")
    assert (
        own_value.returncode,
        "--tokens is for end, bm25, embedding" in own_value.stderr,
    ) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("data", "note"),
    [
        ("The Caf\u00e9 \u20ac Tower.".encode("cp1252"), "was read as cp1252"),
        ("The Caf\u00e9 \u20ac Tower.".encode("utf-16"), "was read as UTF-16"),
        ("The Caf\u00e9 \u20ac Tower.".encode("utf-8-sig"), ""),
    ],
)
def test_latin_letters_and_marks_at_the_start_are_read(run, tmp_path, data, note):
    (tmp_path / "a.txt").write_bytes(data)
    completed_run = run("-p", str(tmp_path / "a.txt"), "--method", "bm25")
    assert completed_run.stdout == "The Caf\u00e9 \u20ac Tower.\n"
    assert (
        (note in completed_run.stderr)
        if note
        else "read as" not in completed_run.stderr
    )


def test_nothing_relevant_has_a_status_of_its_own(command, tmp_path):
    lines = [
        json.dumps({"text": t})
        for t in ("qqq zzz www", "xx yy", "vv ww rr", "kk jj", "lorem ipsum dolor")
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    completed_run = command(
        "run",
        "-q",
        "When was the Eiffel Tower finished?",
        "-p",
        str(tmp_path / "p.jsonl"),
    )
    assert (completed_run.returncode, "nothing relevant" in completed_run.stderr) == (
        4,
        True,
    )
