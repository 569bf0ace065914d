"""A cache only helps: whatever happens to a store or a leader, a paid reply arrives and nobody waits for ever."""

import asyncio
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from faults import Faulty

from denoise_core import (
    Guard,
    InputError,
    Message,
    MissingExtra,
    Passage,
)
from denoise_core.embedded import default_denoiser
from denoise_core.embedded.encoder import CACHE_FILE
from denoise_core.runtime import fallbacks
from denoise_core.runtime.caches import Cache, FailSafeStore, SqliteStore
from denoise_core.testing import FunctionLLM

ASKED = (Message("user", "x"),)
NO_DATABASE = b"not a database, but long enough to be read as one" * 100


def cached(store=None, reply="paid", **settings):
    llm = FunctionLLM(reply if callable(reply) else lambda messages: reply)
    return Cache("m", store, **settings).bind(llm, lambda reply: True)


class Broken:
    def __init__(self, *failing):
        self.failing = failing
        self.asked = []

    def get(self, key):
        self._attempt("get")

    def put(self, key, text):
        self._attempt("put")

    def _attempt(self, verb):
        self.asked.append(verb)
        if verb in self.failing:
            raise OSError("No space left on device")


@pytest.mark.parametrize("failing", [("get",), ("put",), ("get", "put")])
def test_a_store_that_fails_loses_no_reply_and_is_left_alone(failing, caplog):
    fallbacks._counts.clear()
    store = Broken(*failing)
    llm = cached(store)
    with caplog.at_level("WARNING", "denoise"):
        for _ in range(3):
            assert llm.complete(ASKED).text == "paid"
        assert asyncio.run(llm.acomplete(ASKED)).text == "paid"
    assert len(store.asked) <= 2
    (message,) = caplog.messages
    assert message.startswith("Broken: ")


def test_a_store_that_gives_another_type_is_bypassed():
    assert cached(Faulty(lambda *given: b"bytes")).complete(ASKED).text == "paid"


def damaged_file(folder, monkeypatch):
    (folder / CACHE_FILE).write_bytes(NO_DATABASE)
    return folder


def no_folder(folder, monkeypatch):
    (folder / "file").touch()
    return folder / "file"


class ReadOnlyConnection(sqlite3.Connection):
    """What a file on a read-only disk does."""

    def executemany(self, *asked):
        raise sqlite3.OperationalError("attempt to write a readonly database")


class FullConnection(sqlite3.Connection):
    """The disk is found to be full at the end of the transaction, after all rows."""

    def __exit__(self, *error):
        if self.in_transaction:
            self.rollback()
            raise sqlite3.OperationalError("database or disk is full")
        return super().__exit__(*error)


def connecting(kind):
    def prepare(folder, monkeypatch):
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=kind))
        return folder

    return prepare


DISKS = {
    "damaged": damaged_file,
    "no folder": no_folder,
    "read-only": connecting(ReadOnlyConnection),
    "full": connecting(FullConnection),
}


@pytest.mark.parametrize("disk", DISKS)
def test_a_disk_that_fails_costs_no_denoising(disk, tmp_path, monkeypatch, caplog):
    """It raised `InputError` at every call, through the `Guard`, which takes that for a mistake of the caller."""
    passages = [Passage("The tower is in Porto.", "a"), Passage("Bread is cheap.", "b")]
    expected = default_denoiser(keep=1).denoise("Where is the tower?", passages)
    fallbacks._counts.clear()
    folder = DISKS[disk](tmp_path, monkeypatch)
    denoiser = Guard(default_denoiser(keep=1, cache_folder=folder))
    with caplog.at_level("WARNING", "denoise"):
        results = [denoiser.denoise("Where is the tower?", passages) for _ in "ab"]
    for result in results:
        (kept,) = result.passages
        # Scores may differ in the last digits: a text's neighbours in a batch are others.
        score = pytest.approx(expected.passages[0].score)
        assert kept.id == "a"
        assert kept.score == score
        assert result.fallback is None
    (message,) = caplog.messages
    assert str(folder) in message
    assert list(fallbacks.fallback_counts().values()) == [1]


@pytest.mark.parametrize("disk", ["read-only", "full"])
def test_a_disk_that_fails_is_tried_again_after_a_while(disk, tmp_path, monkeypatch):
    store, bypass = SqliteStore(tmp_path / "r.db"), FailSafeStore("r.db")
    with monkeypatch.context() as failing:
        DISKS[disk](tmp_path, failing)
        bypass.attempt(lambda: store.put("k", "text"), None)
    assert store.get("k") is None, "whole or not at all"
    assert bypass.attempt(lambda: "used", "bypassed") == "bypassed"
    bypass._next_trial = 0.0
    bypass.attempt(lambda: store.put("k", "text"), None)
    assert store.get("k") == "text"


@pytest.mark.parametrize(
    "mistake",
    [InputError("that variable is not set"), MissingExtra("run: pip install x")],
)
async def test_a_store_set_up_wrongly_raises(mistake):
    """A store that fails costs speed only; a mistake in its settings would cost it for ever, unheard."""

    def fail(*given):
        raise mistake

    llm = cached(Faulty(fail))
    with pytest.raises(type(mistake)):
        llm.complete(ASKED)
    with pytest.raises(type(mistake)):
        await llm.acomplete(ASKED)


def test_a_scope_keeps_tenants_apart():
    calls, scopes = [], iter("aba")
    llm = cached(scope=lambda: next(scopes), reply=lambda m: calls.append(m) or "paid")
    for _ in range(3):
        llm.complete(ASKED)
    assert len(calls) == 2
    assert Cache("m").key(ASKED) != Cache("m", scope="a").key(ASKED)


def test_old_entries_leave_a_file(tmp_path):
    store = SqliteStore(tmp_path / "r.db", max_entries=3)
    for key in "abcde":
        store.put(key, "x")
    assert [key for key in "abcde" if store.get(key)] == ["c", "d", "e"]


def test_a_file_that_is_deleted_is_created_again(tmp_path):
    """It had no table from then on, for as long as the process lived."""
    store = SqliteStore(tmp_path / "replies" / "r.db")
    store.put("k", "text")
    shutil.rmtree(tmp_path / "replies")
    assert store.get("k") is None
    store.put("k", "again")
    assert store.get("k") == "again"


def test_threads_wait_for_another_writer_together(tmp_path):
    """They waited one after the other: the eighth for eight times the limit."""
    store = SqliteStore(tmp_path / "r.db", timeout=0.5)
    store.put("k", "text")
    with closing(sqlite3.connect(tmp_path / "r.db")) as other_writer:
        other_writer.execute("BEGIN IMMEDIATE")
        start_time = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            writes = [pool.submit(store.put, key, "text") for key in "abcdefgh"]
        seconds = time.monotonic() - start_time
        other_writer.rollback()
    errors = {type(write.exception()) for write in writes}
    assert errors == {sqlite3.OperationalError}
    assert seconds < 3


def test_one_call_at_a_time_tries_a_store_that_hangs():
    bypass = FailSafeStore("slow")
    bypass._next_trial = 0.0  # it failed, and a trial is due
    go = threading.Event()
    begun = threading.Event()

    def hang():
        begun.set()
        go.wait(30)
        return "read"

    with ThreadPoolExecutor(1) as pool:
        trial = pool.submit(bypass.attempt, hang, "bypassed")
        assert begun.wait(30)
        assert bypass.attempt(lambda: "read", "bypassed") == "bypassed"
        go.set()
        assert trial.result(30) == "read"
    assert bypass.attempt(lambda: "read", "bypassed") == "read", "it works again"
