"""Bulk jobs: one row for each id, whoever is killed, and what is wrong with a row is said."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from bulk_denoisers import Noted
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.embedded import default_denoiser
from denoise_core.errors import MissingExtra
from denoise_core.service.bulk import bulk
from denoise_core.service.bulk.parts import ROWS, Parts, Piece, Row, chunks_of, write_part
from denoise_core.service.bulk.workers import Task, carried_out

COMMAND = Path(sys.executable).with_name("rag-denoise")


def rows_of(count, query="tower {i}"):
    texts = ["the tower", "some bread", "number {i}"]
    return [
        {"id": f"row-{i}", "query": query.format(i=i), "passages": [t.format(i=i) for t in texts]}
        for i in range(count)
    ]


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(rows, denoiser):
    out = {}
    for row in rows:
        passages = [Passage(t, str(n)) for n, t in enumerate(row["passages"])]
        out[row["id"]] = {"id": row["id"], **denoiser.denoise(row["query"], passages).as_json()}
    return out


@pytest.fixture
def noted(tmp_path):
    return Noted(tmp_path / "log")


@pytest.mark.parametrize("workers", [1, 3])
def test_every_row_once_and_as_a_plain_loop_has_it(tmp_path, noted, workers):
    rows = rows_of(150)
    told = []
    done = bulk(
        write(tmp_path / "in.jsonl", rows),
        tmp_path / "out.jsonl",
        noted,
        workers=workers,
        progress=lambda *found: told.append(found),
    )
    found = read(tmp_path / "out.jsonl")
    assert {r["id"]: r for r in found} == expected(rows, noted)
    assert [r["id"] for r in found] == [r["id"] for r in rows], "in the order of the input"
    assert len(found) == done.rows == 150
    assert (done.known, done.bad, done.died) == (0, 0, 0)
    assert told[-1] == (150, 150)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "log", "out.jsonl"]


def test_the_default_denoiser_reads_a_chunk_together_with_the_results_of_each_alone(tmp_path):
    rows = rows_of(20, "where is tower {i}?")
    bulk(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", default_denoiser(), workers=1)
    found = {r["id"]: r for r in read(tmp_path / "out.jsonl")}
    for name, row in expected(rows, default_denoiser()).items():
        assert [p["id"] for p in found[name]["passages"]] == [p["id"] for p in row["passages"]]


def test_parquet_in_and_out_and_folders(tmp_path, noted):
    pytest.importorskip("pyarrow")
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows = rows_of(60)
    folder = tmp_path / "in"
    folder.mkdir()
    parquet.write_table(arrow.Table.from_pylist(rows[:40]), folder / "a.parquet")
    write(folder / "b.jsonl", rows[40:])
    done = bulk(folder, tmp_path / "out.parquet", noted, workers=2)
    found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert {r["id"]: json.loads(r["record"]) for r in found} == expected(rows, noted)
    assert done.rows == len(found) == 60
    assert found[0]["passages"][0].split()[0] in ("the", "number")


def test_documents_are_denoised_for_the_jobs_question(tmp_path, noted):
    rows = [{"id": i, "text": t} for i, t in enumerate(["the tower", "some bread"])]
    bulk(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", noted, query="tower", workers=1)
    found = {r["id"]: [p["text"] for p in r["passages"]] for r in read(tmp_path / "out.jsonl")}
    assert found == {"0": ["the tower"], "1": []}


BAD = [
    ("not json", None, "not JSON"),
    ("[1]", None, "expected an object"),
    ('{"query": "q", "passages": []}', None, "id"),
    ('{"id": true, "query": "q", "passages": []}', None, "id"),
    ('{"id": "a", "query": 3, "passages": []}', "a", "query"),
    ('{"id": "b", "query": "q", "passages": "text"}', "b", "passages"),
    ('{"id": "c", "query": "q", "passages": [4]}', "c", r"passages\[0\]"),
    ('{"id": "d", "text": "no question"}', "d", "--query"),
    ('{"id": "e", "query": "fail", "passages": ["x"]}', "e", r"OSError: the disk is gone, api_key=\*\*\*"),
    ('{"id": "row-0", "query": "again", "passages": ["x"]}', "row-0", "came before"),
]


def test_bad_rows_go_to_the_side_file_with_their_reasons_and_spoil_no_other(tmp_path, noted):
    source = write(tmp_path / "in.jsonl", rows_of(50))
    with source.open("a") as file:
        file.write("\n".join(line for line, _, _ in BAD) + "\n\n" + json.dumps(rows_of(51)[50]) + "\n")
    done = bulk(source, tmp_path / "out.jsonl", noted, workers=2)
    assert Counter(r["id"] for r in read(tmp_path / "out.jsonl")) == {f"row-{i}": 1 for i in range(51)}
    bad = {(r["id"], r["reason"]) for r in read(tmp_path / "out.jsonl.bad.jsonl")}
    assert done.bad == len(BAD) == len(read(tmp_path / "out.jsonl.bad.jsonl"))
    for _, name, reason in BAD:
        import re

        assert any(n == name and re.search(reason, said) for n, said in bad), (name, reason, bad)


def test_a_killed_worker_costs_its_own_pieces_alone(tmp_path, noted):
    rows = rows_of(400)
    rows[100]["query"], rows[250]["query"] = "die once a", "die once b"
    done = bulk(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", noted, workers=2)
    assert done.died == 2
    assert {r["id"]: r for r in read(tmp_path / "out.jsonl")} == expected(rows, noted)
    assert done.rows == 400
    computed = (tmp_path / "log").read_text().splitlines()[:-400]  # `expected` above computed each once more
    assert len(computed) - 400 <= 2 * ROWS, "rows of a killed worker's piece that were done, twice"


def test_workers_killed_between_two_pieces_cost_nothing(tmp_path, noted):
    """The pool gives up then, since none of its workers is at work; a new one goes on."""
    source = write(tmp_path / "in.jsonl", rows_of(3 * ROWS))
    pieces, _ = chunks_of([source], tmp_path, write=True)
    found = Counter()

    def given():
        yield pieces[0]
        while not found:
            yield None  # nothing just now
        for worker in multiprocessing.active_children():
            worker.kill()
        time.sleep(1)
        yield from pieces[1:]

    for more in carried_out(Task(noted, tmp_path, None, 30.0), given(), 1):
        found += more
    assert found["rows"] == 3 * ROWS
    assert not found["bad"]


def test_rows_that_kill_or_hang_each_time_are_bad_ones(tmp_path, noted):
    rows = rows_of(100)
    rows[40]["query"], rows[70]["query"] = "die", "hang"
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    done = bulk(source, out, noted, workers=2, seconds=0.3)
    assert [r["id"] for r in read(out)] == [f"row-{i}" for i in range(100) if i not in (40, 70)]
    assert done.bad == 2
    bad = read(tmp_path / "out.jsonl.bad.jsonl")
    assert [(r["id"], r["reason"]) for r in bad] == [
        (name, "its worker died each time, or took longer than 0.3 seconds") for name in ("row-40", "row-70")
    ]


@pytest.mark.parametrize(("size", "count"), [(1_000, 40), (100_000, 24), (10_000_000, 3)])
def test_rows_of_every_size_come_through(tmp_path, noted, size, count):
    rows = [{"id": str(i), "query": f"tower {i}", "passages": ["tower " + "x" * size]} for i in range(count)]
    source = write(tmp_path / "in.jsonl", rows)
    pieces, _ = chunks_of([source], tmp_path, write=False)
    assert sum(p.count for p in pieces) == count
    assert all(p.count == 1 or p.count * size <= 1 << 20 for p in pieces)
    assert bulk(source, tmp_path / "out.jsonl", noted, workers=2).rows == count
    assert [len(r["passages"][0]["text"]) for r in read(tmp_path / "out.jsonl")] == [size + 6] * count


def test_a_second_driver_is_refused(tmp_path, noted):
    source, out = write(tmp_path / "in.jsonl", rows_of(3)), tmp_path / "out.jsonl"
    with Parts(out), pytest.raises(InputError, match="being written by another process"):
        bulk(source, out, noted, workers=1)
    assert bulk(source, out, noted, workers=1).rows == 3


DRIVER = """
import sys
from bulk_denoisers import Noted
from denoise_core.service.bulk import bulk

if __name__ == "__main__":
    done = bulk(sys.argv[1], sys.argv[2], Noted(sys.argv[3], 0.005), workers=2)
    print(done.rows, done.known)
"""


def test_a_killed_driver_goes_on_where_it_was(tmp_path):
    rows = rows_of(600)
    source, out, log = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", tmp_path / "log"
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, script, source, out, log]
    parts = tmp_path / "out.jsonl.parts"
    with subprocess.Popen(command, env=env, start_new_session=True) as first:
        while len(list(parts.glob("*.jsonl"))) < 4:
            assert first.poll() is None
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
    assert not out.exists()
    written = sum(p.read_bytes().count(b"\n") for p in parts.glob("*.jsonl"))
    (parts / ".000000000320-000000000384.jsonl.1.part").write_bytes(b'{"id": "row-3')  # torn in a write
    said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True).stdout
    assert list(map(int, said.split())) == [600, written]
    assert [r["id"] for r in read(out)] == [f"row-{i}" for i in range(600)]
    computed = len(log.read_text().splitlines())
    assert computed - 600 <= 2 * ROWS, "what was under way, and nothing else, is done twice"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["driver.py", "in.jsonl", "log", "out.jsonl"]


def test_an_output_that_is_there_and_parts_of_another_job_are_refused(tmp_path, noted):
    source, out = write(tmp_path / "in.jsonl", rows_of(3)), tmp_path / "out.jsonl"
    with Parts(out) as parts:
        parts.begin([source], {"job": "another"})
    with pytest.raises(InputError, match="of another job"):
        bulk(source, out, noted, workers=1)
    (tmp_path / "out.jsonl.parts" / "manifest.json").unlink()
    bulk(source, out, noted, workers=1)
    with pytest.raises(InputError, match="is there already"):
        bulk(source, out, noted, workers=1)


def test_an_input_that_changed_under_the_same_name_and_size_is_another_job(tmp_path):
    one, other = (
        chunks_of([write(tmp_path / "in.jsonl", [{"id": i}])], tmp_path, write=False)[1] for i in ("a", "b")
    )
    assert one != other


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.data())
def test_what_no_part_holds_is_what_remains_and_each_row_is_written_once(counts, data):
    """Whatever pieces, and rows of pieces, are done, even both."""
    with tempfile.TemporaryDirectory() as folder:
        starts = [sum(counts[:i]) for i in range(len(counts))]
        pieces = [Piece(Path("x"), first, count) for first, count in zip(starts, counts)]
        parts, done = Parts(Path(folder) / "out.jsonl"), set()
        parts.folder.mkdir()

        def write(some):
            for piece in some:
                rows = range(piece.first, piece.first + piece.count)
                write_part(
                    parts.folder,
                    piece,
                    [{"id": n} for n in rows if n % 3],
                    [Row("", n) for n in rows if not n % 3],
                )
                done.update(rows)

        for piece in pieces:
            write(data.draw(st.lists(st.sampled_from([piece, *piece.singles()]), unique=True)))
        left = parts.remaining(pieces)
        rest = [n for p in left for n in range(p.first, p.first + p.count)]
        assert rest == sorted(set(range(sum(counts))) - done)
        write(left)
        assert parts.finish() == (len(read(parts.out)), sum(counts) - len(read(parts.out)))
        assert [r["id"] for r in read(parts.out)] == [n for n in range(sum(counts)) if n % 3]
        assert [r["id"] for r in read(parts.bad_path)] == [n for n in range(sum(counts)) if not n % 3]


class Missing(Noted):
    """What is missing is missing for every row."""

    def denoise(self, query, passages):
        raise MissingExtra("something is not installed; run: pip install it")


def test_a_mistake_that_every_row_would_meet_ends_the_job(tmp_path):
    source = write(tmp_path / "in.jsonl", rows_of(100))
    with pytest.raises(InputError, match=r"no row can be denoised: MissingExtra: .*pip install"):
        bulk(source, tmp_path / "out.jsonl", Missing(tmp_path / "log"), workers=2)


def test_what_does_not_travel_says_so(tmp_path):
    class Local(Noted):
        """Cannot be found by name in another process."""

    with pytest.raises((AttributeError, TypeError), match="Local"):
        bulk(write(tmp_path / "in.jsonl", rows_of(3)), tmp_path / "out.jsonl", Local("log"), workers=1)


@pytest.mark.parametrize(
    ("source", "out", "match"),
    [("none.jsonl", "out.jsonl", "expected a file"), ("in.jsonl", "out.csv", r"ending in \.jsonl or \.parquet")],
)
def test_paths_that_cannot_be_right_are_refused(tmp_path, noted, source, out, match):
    write(tmp_path / "in.jsonl", rows_of(1))
    with pytest.raises(InputError, match=match):
        bulk(tmp_path / source, tmp_path / out, noted)
    with pytest.raises(InputError, match="engine='spark'"):
        bulk(tmp_path / "in.jsonl", tmp_path / "o.jsonl", noted, engine="spark")
    with pytest.raises(InputError, match="workers=0"):
        bulk(tmp_path / "in.jsonl", tmp_path / "p.jsonl", noted, workers=0)


def test_the_command(tmp_path):
    write(tmp_path / "in.jsonl", [*rows_of(30), {"id": "bad"}])
    found = subprocess.run(
        [COMMAND, "bulk", "in.jsonl", "out.jsonl", "--denoiser", "bm25", "--keep", "1", "--workers", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 1, found.stderr
    assert "30 rows in out.jsonl" in found.stderr
    assert "1 bad rows" in found.stderr
    assert len(read(tmp_path / "out.jsonl")) == 30


def test_threads_of_numeric_libraries_share_the_cores_unless_the_user_says_otherwise(monkeypatch):
    from denoise_core.service.bulk.workers import _THREADS, cores_shared

    for name in _THREADS:
        monkeypatch.delenv(name, raising=False)
    with cores_shared(10**6):
        assert {os.environ[name] for name in _THREADS} == {"1"}
    assert not set(_THREADS) & os.environ.keys()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with cores_shared(1):
        assert set(_THREADS) & os.environ.keys() == {"OMP_NUM_THREADS"}, "another would take precedence over it"


def test_nothing_in_nothing_out(tmp_path, noted):
    assert bulk(write(tmp_path / "in.jsonl", []), tmp_path / "out.jsonl", noted).rows == 0
    assert read(tmp_path / "out.jsonl") == []
