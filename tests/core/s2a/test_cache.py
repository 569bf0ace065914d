"""The cache never asks twice what it knows, never keeps what is bad, and never lets one caller harm another."""

from __future__ import annotations

import asyncio

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Message, Passage, Reply
from denoise_core.s2a import Cache, MemoryStore, Options, S2ADenoiser, SqliteStore
from denoise_core.testing import FunctionLLM

from .fakes import keeps, says

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
    fake_llm = keeps(lambda one_text: "tall" in one_text)
    s2a_denoiser = S2ADenoiser(
        fake_llm,
        variant="select",
        options=Options(join_passages=False, cache=Cache("m", store)),
    )
    first, second = (
        s2a_denoiser.denoise("How tall?", PASSAGES),
        s2a_denoiser.denoise("How tall?", PASSAGES),
    )
    third = asyncio.run(s2a_denoiser.adenoise("How tall?", PASSAGES))
    assert len(fake_llm.received_messages) == 2
    assert (
        (first.passages, first.dropped)
        == (second.passages, second.dropped)
        == (third.passages, third.dropped)
    )
    assert second.trace.usage.total == 0


def test_another_question_text_model_or_wording_is_another_call(store):
    fake_llm = keeps(lambda one_text: True)
    options = Options(join_passages=False, cache=Cache("m", store))
    S2ADenoiser(fake_llm, variant="select", options=options).denoise(
        "One?", PASSAGES[:1]
    )
    for variant, query, passage, model in (
        ("select", "Two?", PASSAGES[0], "m"),
        ("select", "One?", PASSAGES[1], "m"),
        ("select", "One?", PASSAGES[0], "n"),
        ("remove", "One?", PASSAGES[0], "m"),
    ):
        before = len(fake_llm.received_messages)
        cache = Options(join_passages=False, cache=Cache(model, store))
        S2ADenoiser(fake_llm, variant=variant, options=cache).denoise(query, [passage])
        assert len(fake_llm.received_messages) == before + 1


def test_the_persistent_store_outlives_the_process_object(tmp_path):
    for expected_calls in (1, 0):
        fake_llm = keeps(lambda one_text: True)
        cache = Cache("m", SqliteStore(tmp_path / "replies.db"))
        S2ADenoiser(
            fake_llm,
            variant="select",
            options=Options(join_passages=False, cache=cache),
        ).denoise("How?", PASSAGES[:1])
        assert len(fake_llm.received_messages) == expected_calls


def test_unreadable_replies_are_not_kept(store):
    fake_llm = says("no idea, 7 perhaps")
    for _ in range(2):
        s2a_denoiser = S2ADenoiser(
            fake_llm,
            variant="select",
            options=Options(join_passages=False, cache=Cache("m", store)),
        )
        assert s2a_denoiser.denoise("How?", PASSAGES[:1]).fallback
    assert len(fake_llm.received_messages) == 4, "each time once more in the same call"


def test_a_failed_call_is_made_anew():
    failing = True

    def reply(_):
        if failing:
            raise ConnectionError("down")
        return "1"

    fake_llm = FunctionLLM(reply)
    s2a_denoiser = S2ADenoiser(
        fake_llm,
        variant="select",
        options=Options(join_passages=False, cache=Cache("m")),
    )
    assert "down" in s2a_denoiser.denoise("How?", PASSAGES).fallback
    failing = False
    assert s2a_denoiser.denoise("How?", PASSAGES).fallback is None


def test_the_file_store_does_not_block_the_event_loop(tmp_path):
    fake_llm = keeps(lambda one_text: True)
    cache = Cache("m", SqliteStore(tmp_path / "replies.db"))
    s2a_denoiser = S2ADenoiser(
        fake_llm, variant="select", options=Options(join_passages=False, cache=cache)
    )

    async def asked() -> None:
        with blockbuster_ctx():
            await s2a_denoiser.adenoise("How?", PASSAGES)

    asyncio.run(asked())
    assert len(fake_llm.received_messages) == 2


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.text(max_size=3))))
def test_memory_store_is_a_bounded_dict_of_the_last_used(pairs):
    store = MemoryStore(max_bytes=2000)  # three of these texts
    for key, text in pairs:
        store.put(key, text)
    last = list(dict.fromkeys(reversed([key_number for key_number, _ in pairs])))[:3]
    written_text = dict(pairs)
    assert {key_number: store.get(key_number) for key_number in "abcde"} == {
        key_number: written_text.get(key_number) if key_number in last else None
        for key_number in "abcde"
    }


def test_a_store_needs_room():
    with pytest.raises(InputError, match="expected 1 or more"):
        SqliteStore("x", max_entries=0)


@pytest.mark.parametrize("answered", ["yes", "no"])
def test_whether_the_pieces_answer_is_known_again(store, answered):
    model = says(f"1\nANSWERED: {answered}")
    options = Options(cache=Cache("m", store))
    results = []
    for _ in range(2):
        result = S2ADenoiser(model, options=options).denoise("How tall?", PASSAGES[:1])
        results.append((result.passages, result.answered, result.relevant))
    assert results[0] == results[1]
    assert results[0][1] == answered
    assert len(model.received_messages) == 1


@pytest.mark.parametrize("on_irrelevant", ["keep", "drop"])
def test_a_repeated_question_has_the_same_result_without_a_call(on_irrelevant):
    llm = FunctionLLM(lambda messages: "1-3\nANSWERED: no")
    options = Options(cache=Cache("m"), use_json_schema=False)
    denoiser = S2ADenoiser(llm, on_irrelevant=on_irrelevant, options=options)
    first = denoiser.denoise("Who built it?", PASSAGES)
    assert first.relevant is False
    for _ in range(2):
        result = denoiser.denoise("Who built it?", PASSAGES)
        assert result.passages == first.passages
        assert (result.relevant, result.answered) == (False, "no")
    assert len(llm.received_messages) == 1
