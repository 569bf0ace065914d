"""The guard never loses context, and always says why."""

import asyncio

import pytest
from faults import Faulty
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st
from laws import TWO_PASSAGES, check_result

from denoise_core import (
    Denoiser,
    DenoiseResult,
    Drop,
    EmptyResult,
    Guard,
    InputError,
    Keep,
    Message,
    Passage,
    Pipeline,
    Span,
    run,
    trace_of,
)
from denoise_core.runtime.effects import complete
from denoise_core.testing import FunctionLLM


def fails(query, passages):
    raise ConnectionError("no route")


def nothing(query, passages):
    return DenoiseResult(
        query, (), kept=(Keep(Span("a", 0, 3), 1.0),), fallback="model said no"
    )


def fails_each(query, passages):
    notes = {passage.id: "no route" for passage in passages}
    return DenoiseResult(query, (), failures=notes)


def blank(query, passages):
    return DenoiseResult(query, (Passage(" \n", "a", is_rewritten=True),))


def guarded(guard, passages=TWO_PASSAGES):
    results = [guard.denoise("q", passages), asyncio.run(guard.adenoise("q", passages))]
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fails, "ConnectionError: no route"),
        (nothing, "model said no; nothing was kept"),
        (blank, "nothing was kept"),
    ],
)
def test_the_default_keeps_everything_and_says_why(answer, why):
    result = guarded(Guard(Faulty(answer)))
    assert result.passages == TWO_PASSAGES
    assert result.fallback == f"{why}; the input was kept as it is"
    assert result.kept == result.dropped == ()
    check_result(TWO_PASSAGES, result)


@pytest.mark.parametrize(
    ("answer", "policy"),
    [
        (fails, "on_error"),
        (fails_each, "on_error"),
        (nothing, "on_empty"),
        (blank, "on_empty"),
    ],
)
def test_drop_lists_every_character_as_dropped(answer, policy):
    result = guarded(Guard(Faulty(answer), **{policy: "drop"}))
    assert result.passages == ()
    assert result.fallback.endswith("everything was dropped")
    check_result(TWO_PASSAGES, result)


def test_a_failure_of_an_earlier_step_makes_no_error_of_an_empty_result():
    pipeline = Pipeline(Guard(Faulty(fails)), Faulty(nothing))
    assert guarded(Guard(pipeline, on_empty="drop")).passages == ()


def test_raise_lets_the_error_through_and_names_emptiness():
    with pytest.raises(ConnectionError):
        Guard(Faulty(fails), on_error="raise").denoise("q", TWO_PASSAGES)
    with pytest.raises(EmptyResult, match="nothing was kept of 2 passages"):
        Guard(Faulty(nothing), on_empty="raise").denoise("q", TWO_PASSAGES)


@given(
    st.sampled_from([fails, nothing, blank]),
    st.lists(st.text(max_size=20), min_size=1, max_size=5),
)
def test_context_is_never_lost(answer, texts):
    passages = tuple(passages_of(texts))
    result = Guard(Faulty(answer)).denoise("q", passages)
    assert result.passages == passages or not any(t.strip() for t in texts)


def test_no_passages_are_no_error():
    assert guarded(Guard(Faulty(nothing)), ()).passages == ()


def test_a_good_result_is_handed_on_untouched():
    good = DenoiseResult("q", TWO_PASSAGES[:1], (Drop(Span("b", 0, 3), "noise"),))
    assert guarded(Guard(Faulty(lambda query, passages: good))) is good
    assert isinstance(Guard(Faulty(nothing)), Denoiser)


def test_the_trace_of_a_failed_run_is_kept():
    def flow():
        yield from complete((Message("user", "x"),), tag="s2a")
        raise ValueError("bad")

    def denoise(query, passages):
        return run(flow(), llm=FunctionLLM(lambda messages: "y"))

    result = Guard(Faulty(denoise)).denoise("q", TWO_PASSAGES)
    assert [event.tag for event in result.trace.events] == ["s2a"]
    assert trace_of(KeyError()).events == ()


async def test_cancellation_goes_through():
    def cancel(query, passages):
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Guard(Faulty(cancel)).adenoise("q", TWO_PASSAGES)


@pytest.mark.parametrize("name", ["on_error", "on_empty"])
def test_an_unknown_policy_is_named(name):
    with pytest.raises(InputError, match=f"{name}='ignore'"):
        Guard(Faulty(nothing), **{name: "ignore"})


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_spans_are_about_this_steps_input_also_after_an_earlier_step(policy):
    earlier = (
        Passage("def ghi", "a", spans=(Span("a", 3, 10),)),
        Passage("new", "b", spans=(Span("b", 0, 9),), is_rewritten=True),
    )
    result = guarded(Guard(Faulty(fails), on_error=policy), earlier)
    check_result(earlier, result)
