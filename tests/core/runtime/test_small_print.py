"""Faults that were found by looking closely: each test fails without its mend."""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pkgutil import resolve_name

import numpy as np
import pytest
from faults import Faulty
from kept_texts import Keeping
from laws import TWO_PASSAGES, check_result

from denoise_core import Budget, InputError, Passage, Pipeline, Usage
from denoise_core._files import write_whole
from denoise_core.end.probe import PROBE_FILES, HiddenStateSpec, Probe, replace_folder
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.result import DenoiseResult
from denoise_core.runtime.record import fallback_for, passage_record

NAN = float("nan")


@pytest.mark.parametrize("wrong", [NAN, -1, -0.5])
@pytest.mark.parametrize("name", ["calls", "tokens", "seconds"])
def test_a_budget_refuses_what_nothing_ever_passes(name, wrong):
    with pytest.raises(InputError, match=f"{name}=.*0 or more"):
        Budget(**{name: wrong})


@pytest.mark.parametrize("wrong", [NAN, -1, float("inf")])
def test_usage_refuses_what_is_no_number(wrong):
    with pytest.raises(InputError):
        Usage(1, wrong)
    assert Usage.from_report(wrong, 1) is None
    assert Usage.from_report("many", 1) is None
    assert Usage.from_report(3, 4) == Usage(3, 4)


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_files_have_the_mode_that_the_umask_says(tmp_path):
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "users.jsonl", "their text")
        with replace_folder(tmp_path / "probe", own_names=PROBE_FILES) as stage:
            (stage / "probe.json").write_text("x")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"users.jsonl": 0o600, "probe": 0o700}


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
def test_a_file_is_written_through_a_link_and_what_is_no_file_stays(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    link.symlink_to(file)
    write_whole(link, "old text")
    file.chmod(0o604)
    write_whole(link, "text")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("text", 0o604)
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(InputError, match="expected a file"):
            write_whole(path, "text")
    assert link.is_symlink()
    assert pipe.is_fifo()


READING = HiddenStateSpec(ModelFingerprint("m", "llama", 3, "float32"), 1, "layout")
ONES = np.ones(3, np.float32)
PROBE = Probe(ONES, 0.5, READING, {"data": "half \ud83d, the other \udc00"})


def test_half_a_character_makes_no_file_unwritable(tmp_path):
    write_whole(tmp_path / "a.txt", "half \ud83d")
    assert (tmp_path / "a.txt").read_text() == "half ?"
    PROBE.save(tmp_path / "probe")
    assert Probe.load(tmp_path / "probe").card["data"] == "half ?, the other ?"


def test_savers_at_once_leave_one_whole_probe(tmp_path):
    def save(bias):
        for _ in range(10):
            Probe(ONES * bias, float(bias), READING).save(tmp_path / "probe")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))
    saved = Probe.load(tmp_path / "probe")
    assert saved.weight.tolist() == [saved.bias] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["probe"]


@pytest.mark.parametrize(
    "name",
    [
        "pathlib.Path.exists",
        "pathlib.Path.is_dir",
        "pathlib.Path.iterdir",
        "os.listdir",
        "os.scandir",
        "os.stat",
    ],
)
def test_a_folder_that_another_saver_moves_away_at_any_time_is_no_obstacle(
    name, tmp_path, monkeypatch
):
    """Whatever a saver has just asked of the folder, it may be gone by then; the other one's comes back later."""
    folder = PROBE.save(tmp_path / "probe")
    look = resolve_name(name)

    def look_and_move(path, *given, **named):
        found = look(path, *given, **named)
        with contextlib.suppress(OSError):
            if path in (folder, str(folder)):
                os.rename(folder, tmp_path / "away")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(name, look_and_move)
        PROBE.save(folder)
    assert Probe.load(folder).bias == 0.5
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"probe", "away"}, "nothing half is left"


def test_a_file_in_the_folders_place_is_not_touched(tmp_path):
    (tmp_path / "probe").write_text("years of work")
    with pytest.raises(InputError, match="holds"):
        PROBE.save(tmp_path / "probe")
    assert (tmp_path / "probe").read_text() == "years of work"


def keep_all(query, passages):
    """Keep all, and say that passage b failed."""
    return DenoiseResult(
        query, tuple(passages), fallback="b failed", failures={"b": "TimeoutError"}
    )


def test_one_documents_failure_marks_that_document_alone():
    passages = {"a": Passage("one", "a"), "b": Passage("two", "b")}
    result = keep_all("q", passages.values())
    for passage_id, fallback in (("a", None), ("b", "TimeoutError")):
        record = passage_record(passages[passage_id], passages, result)
        assert record["fallback"] == fallback
    assert fallback_for(["a"], DenoiseResult("q", (), fallback="all")) == "all"


def test_a_pipeline_carries_failures_and_reads_a_generator_once():
    passages = [Passage("abcdefgh", "a"), Passage("ijklmnop", "b")]
    halves = Keeping(lambda text: [(i, i + 1) for i in range(0, len(text), 2)])
    result = Pipeline(Faulty(keep_all), halves, halves).denoise("q", iter(passages))
    assert result.failures == {"b": "TimeoutError"}
    assert [passage.text for passage in result.passages] == ["ae", "im"]
    check_result(passages, result)


def test_a_step_that_breaks_a_law_is_named():
    invents = Faulty(lambda query, passages: DenoiseResult(query, (Passage("x", "z"),)))
    with pytest.raises(RuntimeError, match="not given"):
        Pipeline(invents, invents).denoise("q", [Passage("x", "a")])


def test_a_folder_given_to_the_command_follows_no_link_out_of_itself(tmp_path):
    pytest.importorskip("typer")
    from denoise_core.cli.read import read_passages

    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("private")
    (folder / "a.txt").write_text("public")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "own.txt").symlink_to(folder / "a.txt")
    reading = read_passages(str(folder))
    assert [passage.text for passage in reading.passages] == ["public", "public"]
    (warning,) = reading.warnings
    assert "link.txt' as text: it is a link out" in warning


@pytest.mark.parametrize(
    ("passages", "told", "is_nothing"),
    [
        ((), {}, True),
        (TWO_PASSAGES, {"fallback": "failed"}, True),
        (TWO_PASSAGES, {"failures": {"a": "x", "b": "x"}}, True),
        (TWO_PASSAGES, {"failures": {"a": "x"}, "fallback": "x"}, False),
        (TWO_PASSAGES, {}, False),
    ],
)
def test_the_command_says_when_nothing_was_denoised(passages, told, is_nothing):
    pytest.importorskip("typer")
    from denoise_core.cli.run import nothing_denoised

    result = DenoiseResult("q", passages, **told)
    assert nothing_denoised(passages, result) == is_nothing
