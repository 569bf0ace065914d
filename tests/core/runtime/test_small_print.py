"""Faults that were found by looking closely: each test fails without its mend."""

import contextlib
import json
import os
import shutil
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from laws import check_result

from denoise_core import Budget, InputError, Passage, Pipeline, Usage
from denoise_core._files import write_whole
from denoise_core.end.fit.data import parse_question
from denoise_core.end.probe import PROBE_FILES, HiddenStateSpec, Probe, replace_folder
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.result import DenoiseResult
from denoise_core.runtime.record import fallback_for, passage_record
from denoise_core.types import Drop, Span

NAN = float("nan")


@pytest.mark.parametrize("wrong", [NAN, -1, -0.5])
@pytest.mark.parametrize("name", ["calls", "tokens", "seconds"])
def test_a_budget_refuses_what_nothing_ever_passes(name, wrong):
    with pytest.raises(InputError, match=name):
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
    assert stat.S_IMODE((tmp_path / "users.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "probe").stat().st_mode) == 0o700
    assert sorted(p.name for p in tmp_path.iterdir()) == ["probe", "users.jsonl"]


def test_half_a_character_makes_no_file_unwritable(tmp_path):
    write_whole(tmp_path / "a.txt", "half \ud83d")
    assert (tmp_path / "a.txt").read_text() == "half ?"


READING = HiddenStateSpec(ModelFingerprint("m", "llama", 3, "float32"), 1, "layout")
PROBE = Probe(np.ones(3, np.float32), 0.5, READING, 0.0, {"data": "x"})


def rewritten(folder, tensors=None, **changes):
    """The saved probe with other tensors or other fields of its manifest."""
    from safetensors.numpy import save

    manifest = json.loads((folder / "probe.json").read_text())
    if tensors is not None:
        import hashlib

        blob = save(tensors)
        (folder / "probe.safetensors").write_bytes(blob)
        manifest["sha256"] = hashlib.sha256(blob).hexdigest()
    manifest.update(changes)
    (folder / "probe.json").write_text(json.dumps(manifest))


GOOD = np.ones(3, np.float32)


@pytest.mark.parametrize(
    "harm",
    [
        lambda f: rewritten(f, {"weight": GOOD, "calibration.x": GOOD}),
        lambda f: rewritten(f, {"bias": GOOD[:1], "other": GOOD}),
        lambda f: rewritten(f, {"weight": GOOD * NAN, "bias": GOOD[:1]}),
        lambda f: rewritten(
            f, {"weight": np.ones((2, 2), np.float32), "bias": GOOD[:1]}
        ),
        lambda f: rewritten(f, threshold=NAN),
        lambda f: rewritten(f, threshold=True),
        lambda f: rewritten(f, threshold="0"),
        lambda f: rewritten(f, reading=[1]),
        lambda f: rewritten(f, sha256=None),
        lambda f: (f / "probe.json").write_text("[" * 100_000),
        lambda f: (f / "probe.json").write_text("null"),
        lambda f: (
            (f / "probe.json").unlink(),
            (f / "probe.json").symlink_to(f / "nowhere"),
        ),
        lambda f: ((f / "probe.json").unlink(), (f / "probe.json").mkdir()),
    ],
)
def test_a_malformed_probe_folder_is_an_error_of_ours(tmp_path, harm):
    folder = PROBE.save(tmp_path / "probe")
    harm(folder)
    with pytest.raises(InputError):
        Probe.load(folder)


def test_two_savers_at_once_leave_one_whole_probe(tmp_path):
    failed = []

    def save(bias):
        try:
            for _ in range(10):
                Probe(GOOD * bias, float(bias), READING).save(tmp_path / "probe")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    found = Probe.load(tmp_path / "probe")
    assert found.weight.tolist() == [found.bias] * 3
    assert [p.name for p in tmp_path.iterdir()] == ["probe"]


def test_a_folder_that_another_saver_moves_away_at_any_time_is_no_obstacle(
    tmp_path, monkeypatch
):
    """Whatever a saver has just asked of the folder, it may be gone by then; the other one's comes back later."""
    folder = tmp_path / "probe"
    looks = [
        (Path, "exists"),
        (Path, "is_dir"),
        (Path, "iterdir"),
        (os, "listdir"),
        (os, "scandir"),
        (os, "stat"),
    ]
    for home, name in looks:
        PROBE.save(folder)
        real = getattr(home, name)

        def looked(path, *given, real=real, **named):
            found = real(path, *given, **named)
            with contextlib.suppress(OSError):
                if path in (folder, str(folder)):
                    os.rename(folder, tmp_path / "away")
            return found

        with monkeypatch.context() as patched:
            patched.setattr(home, name, looked)
            PROBE.save(folder)
        assert Probe.load(folder).bias == 0.5
        shutil.rmtree(tmp_path / "away", ignore_errors=True)
    assert [p.name for p in tmp_path.iterdir()] == ["probe"]


def test_a_file_in_the_folders_place_is_not_touched(tmp_path):
    (tmp_path / "probe").write_text("years of work")
    with pytest.raises(InputError, match="holds"):
        PROBE.save(tmp_path / "probe")
    assert (tmp_path / "probe").read_text() == "years of work"


def test_one_documents_failure_marks_that_document_alone():
    passages = [Passage("one", "a"), Passage("two", "b")]
    result = DenoiseResult(
        "q",
        tuple(passages),
        fallback="'b' kept as it was",
        failures={"b": "TimeoutError"},
    )
    given = {p.id: p for p in passages}
    records = [
        passage_record(passage, given, result)["fallback"] for passage in passages
    ]
    assert records == [None, "TimeoutError"]
    assert fallback_for(["a"], DenoiseResult("q", (), fallback="all")) == "all"


class Fails:
    """Keeps all, and says that passage b failed."""

    def denoise(self, query, passages):
        return DenoiseResult(
            query, tuple(passages), fallback="b failed", failures={"b": "TimeoutError"}
        )

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


class Halves:
    """Keeps every second character."""

    def denoise(self, query, passages):
        kept, dropped = [], []
        for p in passages:
            spans = [Span(p.id, i, i + 1) for i in range(len(p.text))]
            text = "".join(p.text[s.start : s.end] for s in spans[::2])
            kept.append(Passage(text, p.id, spans=tuple(spans[::2])))
            dropped += [Drop(s, "odd") for s in spans[1::2]]
        return DenoiseResult(query, tuple(kept), tuple(dropped))

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


def test_a_pipeline_carries_failures_and_reads_a_generator_once():
    texts = {"a": "abcdefgh", "b": "ijklmnop"}
    result = Pipeline(Fails(), Halves(), Halves()).denoise(
        "q", (Passage(t, i) for i, t in texts.items())
    )
    assert result.failures == {"b": "TimeoutError"}
    check_result([Passage(t, i) for i, t in texts.items()], result)


def test_a_step_that_breaks_a_law_is_named():
    class Invents(Halves):
        def denoise(self, query, passages):
            return DenoiseResult(query, (Passage("made up", "z"),))

    with pytest.raises(RuntimeError, match="not given"):
        Pipeline(Invents(), Halves()).denoise("q", [Passage("x", "a")])


def test_a_question_in_a_reply_is_found_without_its_decoration():
    assert parse_question('1. **Question: "Who built it?"**') == "Who built it?"
    assert parse_question("> What is it?  ") == "What is it?"


def test_a_folder_given_to_the_command_follows_no_link_out_of_itself(tmp_path):
    pytest.importorskip("typer")
    from denoise_core.cli.read import read_passages

    (tmp_path / "secret.txt").write_text("private")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("public")
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "in" / "own.txt").symlink_to(tmp_path / "in" / "a.txt")
    texts = [p.text for p in read_passages(str(tmp_path / "in")).passages]
    assert texts == ["public", "public"]


def test_the_command_says_when_nothing_was_denoised():
    pytest.importorskip("typer")
    from denoise_core.cli.run import nothing_denoised

    passages = (Passage("one", "a"), Passage("two", "b"))
    kept = DenoiseResult("q", passages, fallback="failed")
    assert nothing_denoised((), DenoiseResult("q", ()))
    assert nothing_denoised(passages, kept)
    assert nothing_denoised(
        passages, DenoiseResult("q", passages, failures={"a": "x", "b": "x"})
    )
    assert not nothing_denoised(
        passages, DenoiseResult("q", passages, failures={"a": "x"}, fallback="x")
    )
    assert not nothing_denoised(passages, DenoiseResult("q", passages))
