"""The cache never asks twice what it knows, never keeps what is bad, and never lets one caller harm another."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Message, Passage, Reply
from denoise_core.s2a import Cache, MemoryStore, Options, S2ADenoiser, SqliteStore
from denoise_core.testing import FunctionLLM

from .fakes import document, keeps, says

PASSAGES = (
    Passage("The tower is tall. I love it.", "a"),
    Passage("Bananas are yellow.", "b"),
)
ASKED = (Message("user", "BEGIN 00 text"),)


def always(_: Reply) -> bool:
    return True


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return (
        MemoryStore()
        if request.param == "memory"
        else SqliteStore(tmp_path / "deep" / "replies.db")
    )


def test_a_second_run_makes_no_call_and_gives_the_same(store):
    llm = keeps(lambda t: "tall" in t)
    denoiser = S2ADenoiser(
        llm,
        variant="select",
        options=Options(join_passages=False, cache=Cache("m", store)),
    )
    first, second = (
        denoiser.denoise("How tall?", PASSAGES),
        denoiser.denoise("How tall?", PASSAGES),
    )
    third = asyncio.run(denoiser.adenoise("How tall?", PASSAGES))
    assert len(llm.received_messages) == 2
    assert (
        (first.passages, first.dropped)
        == (second.passages, second.dropped)
        == (third.passages, third.dropped)
    )
    assert second.trace.usage.total == 0


def test_another_question_text_model_or_wording_is_another_call(store):
    llm = keeps(lambda t: True)
    options = Options(join_passages=False, cache=Cache("m", store))
    S2ADenoiser(llm, variant="select", options=options).denoise("One?", PASSAGES[:1])
    for variant, query, passage, model in (
        ("select", "Two?", PASSAGES[0], "m"),
        ("select", "One?", PASSAGES[1], "m"),
        ("select", "One?", PASSAGES[0], "n"),
        ("remove", "One?", PASSAGES[0], "m"),
    ):
        before = len(llm.received_messages)
        cache = Options(join_passages=False, cache=Cache(model, store))
        S2ADenoiser(llm, variant=variant, options=cache).denoise(query, [passage])
        assert len(llm.received_messages) == before + 1


@pytest.mark.parametrize("text", ["", "\ud800 half", "\x00", "😀", "x" * 1_000_000])
def test_any_text_survives_the_store(store, text):
    store.put("k", text)
    assert store.get("k") == text
    assert store.get("other") is None


def test_the_persistent_store_outlives_the_process_object(tmp_path):
    for expected_calls in (1, 0):
        llm = keeps(lambda t: True)
        cache = Cache("m", SqliteStore(tmp_path / "replies.db"))
        S2ADenoiser(
            llm, variant="select", options=Options(join_passages=False, cache=cache)
        ).denoise("How?", PASSAGES[:1])
        assert len(llm.received_messages) == expected_calls


def test_unreadable_replies_are_not_kept(store):
    llm = says("no idea, 7 perhaps")
    denoiser = S2ADenoiser(
        llm,
        variant="select",
        options=Options(join_passages=False, cache=Cache("m", store)),
    )
    assert denoiser.denoise("How?", PASSAGES[:1]).fallback
    denoiser.denoise("How?", PASSAGES[:1])
    assert len(llm.received_messages) == 4, "each time once more in the same call"


def test_what_was_selected_costs_nothing_in_another_order_or_with_others(store):
    """Prompts share no prefix when a list is shuffled; selections are known by document and question."""
    llm = keeps(lambda t: "7" in t or "3" in t)
    passages = [Passage(f"Text {i} is here. It ends.", str(i)) for i in range(20)]
    denoiser = S2ADenoiser(llm, options=Options(cache=Cache("m", store)))
    first = denoiser.denoise("How?", passages)
    asked = len(llm.received_messages)
    again = denoiser.denoise("How?", passages[15:4:-1])
    assert len(llm.received_messages) == asked
    assert {p.id: p for p in again.passages} == {
        p.id: p for p in first.passages if 4 < int(p.id) < 16
    }
    more = denoiser.denoise("How?", [*passages[:3], Passage("A new 7. Or so.", "new")])
    assert len(llm.received_messages) == asked + 1
    assert document(llm.received_messages[-1]) == "1 A new 7.\n2 Or so."
    assert [p.id for p in more.passages] == ["new"]


def test_identical_passages_at_once_are_one_call():
    llm = keeps(lambda t: True, seconds=0.01)
    cache = Cache("m")
    same = [Passage("The same text. Twice.", str(i)) for i in range(10)]
    denoiser = S2ADenoiser(
        llm, variant="select", options=Options(join_passages=False, cache=cache)
    )
    assert len(denoiser.denoise("How?", same).passages) == 10
    asyncio.run(
        S2ADenoiser(
            llm,
            variant="select",
            options=Options(join_passages=False, cache=Cache("n")),
        ).adenoise("How?", same)
    )
    assert len(llm.received_messages) == 2


def test_a_failed_call_fails_all_who_wait_and_is_made_anew():
    failing = True

    def reply(_):
        if failing:
            raise ConnectionError("down")
        return "1"

    llm = FunctionLLM(reply)
    denoiser = S2ADenoiser(
        llm, variant="select", options=Options(join_passages=False, cache=Cache("m"))
    )
    assert "down" in denoiser.denoise("How?", PASSAGES).fallback
    failing = False
    assert denoiser.denoise("How?", PASSAGES).fallback is None


@pytest.mark.parametrize("cancelled", ["leader", "follower"])
def test_a_cancelled_caller_does_not_cancel_the_other(cancelled):
    async def both() -> str:
        started, go = asyncio.Event(), asyncio.Event()

        class Slow:
            async def acomplete(self, messages):
                started.set()
                await go.wait()
                return Reply("1")

        bound = Cache("m").bind(Slow(), always)
        tasks = {"leader": asyncio.create_task(bound.acomplete(ASKED))}
        await started.wait()
        tasks["follower"] = asyncio.create_task(bound.acomplete(ASKED))
        await asyncio.sleep(0)
        stopped = tasks.pop(cancelled)
        stopped.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        (other,) = tasks.values()
        return (await other).text

    assert asyncio.run(both()) == "1"


def test_the_file_store_does_not_block_the_event_loop(tmp_path):
    llm = keeps(lambda t: True)
    cache = Cache("m", SqliteStore(tmp_path / "replies.db"))
    denoiser = S2ADenoiser(
        llm, variant="select", options=Options(join_passages=False, cache=cache)
    )

    async def asked() -> None:
        with blockbuster_ctx():
            await denoiser.adenoise("How?", PASSAGES)

    asyncio.run(asked())
    assert len(llm.received_messages) == 2


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.text(max_size=3))))
def test_memory_store_is_a_bounded_dict_of_the_last_used(pairs):
    store = MemoryStore(max_entries=3)
    for key, text in pairs:
        store.put(key, text)
    last = list(dict.fromkeys(reversed([k for k, _ in pairs])))[:3]
    written = dict(pairs)
    assert {k: store.get(k) for k in "abcde"} == {
        k: written.get(k) if k in last else None for k in "abcde"
    }


def test_sqlite_store_is_bounded_and_shared_between_threads(tmp_path):
    store = SqliteStore(tmp_path / "r.db", max_entries=20)
    threads = [
        threading.Thread(
            target=lambda i=i: [store.put(f"{i}-{k}", "x") for k in range(5)]
        )
        for i in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with sqlite3.connect(tmp_path / "r.db") as db:
        assert db.execute("SELECT COUNT(*) FROM replies").fetchone() == (20,)
        assert {row[0] for row in db.execute("SELECT text FROM replies")} == {b"x"}


@pytest.mark.parametrize(
    "make", [MemoryStore, lambda max_entries: SqliteStore("x", max_entries=max_entries)]
)
def test_a_store_needs_room(make):
    with pytest.raises(InputError, match="expected 1 or more"):
        make(max_entries=0)
