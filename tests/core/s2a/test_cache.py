"""The cache never asks twice what it knows, never keeps what is bad, and never lets one caller harm another."""

import asyncio

import pytest
from augmenter_doubles import scripted
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.s2a import Cache, MemoryStore, SqliteStore

from .fakes import call_count, keeps, s2a

PASSAGES = (
    Passage("The tower is tall. I love it.", "a"),
    Passage("Bananas are yellow.", "b"),
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    return SqliteStore(tmp_path / "deep" / "replies.db")


def cached(llm, store=None, model="m", **settings):
    return s2a(llm, cache=Cache(model, store), **settings)


def outcome(result):
    return result.passages, result.dropped, result.relevant, result.answered


@pytest.mark.parametrize(
    ("variant", "query", "passage", "model"),
    [
        ("select", "Two?", PASSAGES[0], "m"),
        ("select", "One?", PASSAGES[1], "m"),
        ("select", "One?", PASSAGES[0], "n"),
        ("single", "One?", PASSAGES[0], "m"),
    ],
)
def test_another_question_text_model_or_wording_is_another_call(
    variant, query, passage, model
):
    llm, store = keeps(lambda text: True), MemoryStore()
    cached(llm, store).denoise("One?", PASSAGES[:1])
    cached(llm, store, model, variant=variant).denoise(query, [passage])
    assert call_count(llm) == 2


def test_the_persistent_store_outlives_the_process_object(tmp_path):
    llm = keeps(lambda text: True)
    for _ in range(2):
        store = SqliteStore(tmp_path / "replies.db")
        cached(llm, store).denoise("How?", PASSAGES[:1])
    assert call_count(llm) == 1


def test_unreadable_replies_are_not_kept(store):
    llm = scripted("no idea, 7 perhaps")
    for _ in range(2):
        assert cached(llm, store).denoise("How?", PASSAGES[:1]).fallback
    assert call_count(llm) == 4, "each time once more in the same call"


def test_a_failed_call_is_made_anew():
    denoiser = cached(scripted(ConnectionError("down"), "1"))
    assert "down" in denoiser.denoise("How?", PASSAGES[:1]).fallback
    assert denoiser.denoise("How?", PASSAGES[:1]).fallback is None


async def test_the_file_store_does_not_block_the_event_loop(tmp_path):
    llm = keeps(lambda text: True)
    denoiser = cached(llm, SqliteStore(tmp_path / "replies.db"))
    with blockbuster_ctx():
        await denoiser.adenoise("How?", PASSAGES)
    assert call_count(llm) == 1


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.text(max_size=3))))
def test_memory_store_is_a_bounded_dict_of_the_last_used(pairs):
    store, expected = MemoryStore(max_bytes=2000), {}  # three of these texts
    for key, text in pairs:
        store.put(key, text)
        expected.pop(key, None)
        expected[key] = text
    last = dict(list(expected.items())[-3:])
    assert [store.get(key) for key in "abcde"] == [last.get(key) for key in "abcde"]


def test_a_store_needs_room():
    with pytest.raises(InputError, match="expected 1 or more"):
        SqliteStore("x", max_entries=0)


TWINS = (PASSAGES[0], Passage(PASSAGES[0].text, "twin"))


@pytest.mark.parametrize(
    ("reply", "passages", "settings"),
    [
        ("1\nANSWERED: yes", PASSAGES, {"join_passages": False}),
        ("1\nANSWERED: yes", PASSAGES[:1], {}),
        ("1\nANSWERED: no", PASSAGES[:1], {}),
        ("1-3\nANSWERED: no", PASSAGES, {"on_irrelevant": "keep"}),
        ("1-3\nANSWERED: no", PASSAGES, {"on_irrelevant": "drop"}),
        ("1, 3\nANSWERED: yes", TWINS, {}),
        ("1\nANSWERED: yes", TWINS, {}),
    ],
)
def test_a_repeated_question_has_the_same_result_without_a_call(
    store, reply, passages, settings
):
    llm = scripted(reply)
    denoiser = cached(llm, store, **settings)
    first = denoiser.denoise("How tall?", passages)
    assert first.answered == reply.split()[-1]
    calls = call_count(llm)
    assert calls == (2 if "join_passages" in settings else 1)
    second = denoiser.denoise("How tall?", passages)
    third = asyncio.run(denoiser.adenoise("How tall?", passages))
    assert outcome(first) == outcome(second) == outcome(third)
    assert second.trace.usage.total == third.trace.usage.total == 0
    assert call_count(llm) == calls
