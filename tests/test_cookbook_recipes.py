"""The recipes for many rows: each row once, failures named, and a part that is not whole is not taken for done."""

import codecs
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from code_measures import ROOT
from growing_texts import passages_of

from denoise_core import default_denoiser

COOKBOOK = ROOT / "cookbook"
RECIPES = {"ray": "ray_data_denoise.py", "datasets": "datasets_map_denoise.py"}
TEXTS = ["Bread is cheap.", "The tower is in Porto.", "Rain fell all day."]
PARTS = 3


def good_row(n):
    return {
        "id": f"row {n}",
        "query": f"Where is tower {n}?",
        "passages": [f"Number\u2028{n}.", *TEXTS],  # no end of a line
    }


BAD_ROWS = {
    4: ("{not JSON", None, "JSONDecodeError"),
    9: (
        '{"id": "no question", "passages": ["Rain."]}',
        "no question",
        "KeyError",
    ),
    14: (
        '{"id": "a number", "query": "q", "passages": [7]}',
        "a number",
        "InputError",
    ),
    6: ('{"id": "\udce9"}', None, "UnicodeDecodeError"),  # a byte that is not UTF-8
    11: (
        '{"id": "a text", "query": "q", "passages": "whole"}',
        "a text",
        "TypeError: passages: expected a list",
    ),
}


EXITS = '{"id": "exits", "query": "exit", "passages": ["Rain."]}'
KILLS = '{"id": "kills", "query": "kill", "passages": ["Rain."]}'
FATAL_ROWS = {
    2: (EXITS, "exits", "SystemExit"),
    7: (KILLS, "kills", "RuntimeError: the worker died 2 times"),
}
FATAL = """
import signal, sys, time

real_denoiser = default_denoiser

class Fatal:
    def __init__(self, **settings):
        self.denoiser = real_denoiser(**settings)

    def denoise(self, query, passages):
        if query == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if query == "exit":
            sys.exit("a library that gives up")
        if query == "Where is tower 8?":
            time.sleep(1)  # the worker beside the one that dies is in the middle of this row
        return self.denoiser.denoise(query, passages)

default_denoiser = Fatal
"""


class Recipe:
    """One of the recipes with an input of its form."""

    def __init__(self, name, folder, bad_rows=BAD_ROWS):
        pytest.importorskip(name, reason=f"{name} is not installed")
        self.name = name
        self.bad_rows = bad_rows
        self.environment = {}
        self.script = COOKBOOK / RECIPES[name]
        self.folder = folder
        self.output = folder / "denoised"
        lines = []  # five for each part, some of them bad
        for n in range(5 * PARTS):
            good_line = json.dumps(good_row(n), ensure_ascii=False)
            line = bad_rows[n][0] if n in bad_rows else good_line
            lines.append(f"{line}\n".encode("utf-8", "surrogateescape"))
        lines[0] = codecs.BOM_UTF8 + lines[0]
        if name == "ray":
            rows = folder / "rows"
            rows.mkdir()
            names = [f"{n}.jsonl" for n in range(PARTS)]
            for n, part in enumerate(names):
                (rows / part).write_bytes(b"".join(lines[5 * n : 5 * n + 5]))
            self.options = [rows, self.output]
        else:
            rows = folder / "rows.jsonl"
            rows.write_bytes(b"".join(lines))
            names = [f"part-{n:04}.jsonl" for n in range(PARTS)]
            self.options = [rows, self.output, "--parts", PARTS]
        self.parts = [self.output / part for part in names]

    def start(self, keep=1):
        command = [sys.executable, self.script, *self.options, "--keep", keep]
        log = (self.folder / "log").open("a")
        return subprocess.Popen(
            [str(part) for part in command],
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env=os.environ | self.environment,
        )

    def run(self):
        assert self.start().wait(300) == 0, (self.folder / "log").read_text()[-3000:]

    def check(self):
        """Each row is there once and in order, with what a plain loop gives; a failed one is named."""
        denoiser = default_denoiser(keep=1)
        lines = "".join(part.read_text("utf-8") for part in self.parts).splitlines()
        assert len(lines) == 5 * PARTS
        for n, row in enumerate(map(json.loads, lines)):
            if n in self.bad_rows:
                _, row_id, error = self.bad_rows[n]
                assert row["id"] == row_id
                assert row["error"].startswith(error)
                assert row["line"] == (n % 5 + 1 if self.name == "ray" else n + 1)
                continue
            asked = good_row(n)
            given = passages_of(asked["passages"])
            kept = denoiser.denoise(asked["query"], given).passages
            texts = [{"id": p.id, "text": p.text} for p in kept]
            assert row == {"id": asked["id"], "passages": texts}
        assert sorted(self.output.iterdir()) == sorted(self.parts)

    def check_goes_on(self):
        """After a part was cut off, the others are not done again."""
        first, second, *_ = self.parts
        done_at = first.stat().st_mtime_ns
        second.unlink(missing_ok=True)
        second.with_suffix(".jsonl.cut.tmp").write_text('{"id": "row', "utf-8")
        self.run()
        assert first.stat().st_mtime_ns == done_at, "a part was done again"
        self.check()


def test_ray_does_each_row_once_and_goes_on(tmp_path):
    recipe = Recipe("ray", tmp_path)
    recipe.run()
    recipe.check()
    recipe.check_goes_on()


def test_datasets_does_each_row_once_and_goes_on_after_a_kill(tmp_path):
    recipe = Recipe("datasets", tmp_path)
    running = recipe.start()
    while not recipe.parts[0].exists() and running.poll() is None:
        time.sleep(0.02)
    running.kill()
    running.wait(30)
    written = list(recipe.output.glob("*.jsonl"))
    assert len(written) < PARTS, "it was killed too late to tell"
    recipe.check_goes_on()


def test_no_rows_are_no_failure_and_no_passages_to_keep_are_refused(tmp_path):
    recipe = Recipe("datasets", tmp_path)
    recipe.options[0].write_bytes(b"")
    recipe.run()
    assert not any(recipe.output.iterdir())
    assert recipe.start(keep=0).wait(60) == 1
    assert "keep=0: expected 1" in (tmp_path / "log").read_text()


def check_fatal_rows(name, tmp_path, environment=()):
    recipe = Recipe(name, tmp_path, FATAL_ROWS)
    recipe.environment = dict(environment)
    source = recipe.script.read_text("utf-8")
    recipe.script = tmp_path / RECIPES[name]
    imported = "default_denoiser\n"
    recipe.script.write_text(source.replace(imported, imported + FATAL, 1), "utf-8")
    recipe.run()
    recipe.check()


def test_datasets_names_a_row_that_ends_its_worker(tmp_path):
    check_fatal_rows("datasets", tmp_path)


def test_ray_names_a_row_that_ends_its_worker_beside_another_cluster(tmp_path):
    """The recipe does not join a cluster that another program started and may end."""
    # Ray's sockets have names of at most 107 bytes, and `tmp_path` is a long one.
    with tempfile.TemporaryDirectory(prefix="ray") as ray_folder:
        running = Path(ray_folder, "ray", "ray_current_cluster")
        running.parent.mkdir()
        running.write_text("127.0.0.1:9")
        check_fatal_rows("ray", tmp_path, {"RAY_TMPDIR": ray_folder})


@pytest.mark.parametrize("name", RECIPES)
def test_a_part_that_cannot_be_written_whole_is_not_there(name, tmp_path, monkeypatch):
    pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.syspath_prepend(COOKBOOK)
    recipe = importlib.import_module(RECIPES[name].removesuffix(".py"))

    def rows():
        yield {"id": "1"} if name == "ray" else "{}"
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        recipe.write_part(tmp_path / "part.jsonl", rows())
    assert not (tmp_path / "part.jsonl").exists()
