"""Mistakes raise through every fallback; failures follow the policy; what comes back wrong is held to the laws."""

import asyncio

import pytest
from faults import Faulty, faults_of
from laws import check_result

from denoise_core import (
    DenoiseResult,
    Drop,
    Guard,
    InputError,
    Message,
    MissingExtra,
    Passage,
    Pipeline,
    ProbeMismatch,
    Reply,
    Span,
    arun,
    run,
)
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import ContractViolation
from denoise_core.runtime.effects import Batch, Complete, batch, complete
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer, ListRetriever

DOCS = (Passage("one", "a"), Passage("two", "b"))
ASKED = (Message("user", "x"),)


class Refused(Exception):
    status_code = 401


MISTAKES = [
    MissingExtra("pip install it"),
    ProbeMismatch("foreign"),
    InputError("bad"),
    Refused("key"),
    AttributeError("x"),
]


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize("error", MISTAKES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    "make",
    [
        lambda fail: Guard(ENDDenoiser(FunctionScorer(fail))),
        lambda fail: S2ADenoiser(FunctionLLM(fail)),
        lambda fail: S2ADenoiser(FunctionLLM(fail), variant="default", on_error="drop"),
        lambda fail: Guard(Pipeline(S2ADenoiser(FunctionLLM(fail)))),
    ],
    ids=["END", "S2A", "S2A rewriting", "Pipeline"],
)
def test_a_mistake_raises_through_every_denoiser(make, error):
    with pytest.raises(type(error)):
        make(raising(error)).denoise("q", DOCS)
    with pytest.raises(type(error)):
        asyncio.run(make(raising(error)).adenoise("q", DOCS))


@pytest.mark.parametrize("error", MISTAKES, ids=lambda e: type(e).__name__)
def test_a_mistake_raises_through_the_loop(error):
    made = Augmenter(FunctionLLM(raising(error)), ListRetriever(DOCS))
    with pytest.raises(type(error)):
        made.answer("What is it?")
    with pytest.raises(type(error)):
        asyncio.run(made.aanswer("What is it?"))


def test_a_flow_that_catches_everything_catches_no_mistake():
    closed = []

    def flow():
        try:
            yield from complete(ASKED, tag="t")
        except Exception:
            return "hidden"
        finally:
            closed.append(True)

    for error, ends in ((Refused("key"), True), (TimeoutError("late"), False)):
        llm = FunctionLLM(raising(error))
        for drive in (run, lambda *a, **n: asyncio.run(arun(*a, **n))):
            if ends:
                with pytest.raises(Refused):
                    drive(flow(), llm=llm)
            else:
                assert drive(flow(), llm=llm)[0] == "hidden"
    assert len(closed) == 4


@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_rest_of_a_batch_is_not_begun_after_a_mistake(concurrency):
    llm = FunctionLLM(raising(Refused("key")))
    flow = batch(tuple(Complete(ASKED, "t") for _ in range(500)))
    with pytest.raises(Refused):
        run(flow, llm=llm, max_concurrency=concurrency)
    assert len(llm.received_messages) < 100
    llm = FunctionLLM(raising(Refused("key")), seconds=0.001)
    with pytest.raises(Refused):
        asyncio.run(
            arun(
                batch(tuple(Complete(ASKED, "t") for _ in range(500))),
                llm=llm,
                max_concurrency=concurrency,
            )
        )
    assert len(llm.received_messages) < 100


def test_a_scorer_that_stops_the_iteration_ends():
    """On Python 3.11 the thread's future never came back."""
    end = ENDDenoiser(FunctionScorer(raising(StopIteration())))
    result = asyncio.run(asyncio.wait_for(Guard(end).adenoise("q", DOCS), 10))
    assert result.passages == DOCS
    assert "StopIteration" in result.fallback


def test_a_reply_without_a_text_is_a_failure_and_no_mistake():
    result = S2ADenoiser(FunctionLLM(lambda m: Reply(None))).denoise("q", DOCS)
    assert [p.text for p in result.passages] == ["one", "two"]
    assert result.fallback


WRONG = {name: fault for name, fault in faults_of("denoise").items() if "gives" in name}


@pytest.mark.parametrize("name", WRONG)
def test_what_comes_back_wrong_follows_the_policy(name):
    denoiser = Faulty(WRONG[name])
    kept = Guard(denoiser).denoise("q", iter(DOCS))
    assert kept.passages == DOCS
    assert kept.failures.keys() == {"a", "b"}
    dropped = asyncio.run(Guard(denoiser, on_error="drop").adenoise("q", iter(DOCS)))
    assert dropped.passages == ()
    check_result(DOCS, dropped)
    with pytest.raises(ContractViolation):
        Guard(denoiser, on_error="raise").denoise("q", DOCS)


def test_a_generator_of_kept_passages_is_read_once():
    result = Guard(Faulty(lambda q, p: DenoiseResult(q, (x for x in p)))).denoise(
        "q", DOCS
    )
    assert result.passages == DOCS


def test_what_is_neither_kept_nor_dropped_is_listed():
    result = Guard(Faulty(lambda q, p: DenoiseResult(q, p[1:]))).denoise("q", DOCS)
    check_result(DOCS, result)
    assert result.dropped == (Drop(Span("a", 0, 3), "left out"),)


def test_an_empty_batch_is_no_mistake():
    assert run(batch(()))[0] == []
    assert Batch(()).items == ()
