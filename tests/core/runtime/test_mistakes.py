"""Mistakes raise through every fallback; failures follow the policy; what comes back wrong is held to the laws."""

import asyncio

import pytest
from faults import Faulty, faults_of
from laws import TWO_PASSAGES, check_result

from denoise_core import (
    DenoiseResult,
    Drop,
    Guard,
    InputError,
    Message,
    MissingExtra,
    Pipeline,
    ProbeMismatch,
    Span,
    arun,
    run,
)
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import ContractViolation
from denoise_core.runtime.effects import Complete, batch
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer, ListRetriever

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


every_mistake = pytest.mark.parametrize(
    "error", MISTAKES, ids=lambda error: type(error).__name__
)


@every_mistake
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
async def test_a_mistake_raises_through_every_denoiser(make, error):
    denoiser = make(raising(error))
    with pytest.raises(type(error)):
        denoiser.denoise("q", TWO_PASSAGES)
    with pytest.raises(type(error)):
        await denoiser.adenoise("q", TWO_PASSAGES)


@every_mistake
async def test_a_mistake_raises_through_the_loop(error):
    loop = Augmenter(FunctionLLM(raising(error)), ListRetriever(TWO_PASSAGES))
    with pytest.raises(type(error)):
        loop.answer("What is it?")
    with pytest.raises(type(error)):
        await loop.aanswer("What is it?")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_flow_that_catches_everything_catches_no_mistake(is_async):
    closed = []

    def flow():
        try:
            yield Complete(ASKED, "t")
        except Exception:
            return "hidden"
        finally:
            closed.append(True)

    def drive(error):
        llm = FunctionLLM(raising(error))
        if is_async:
            return asyncio.run(arun(flow(), llm=llm))[0]
        return run(flow(), llm=llm)[0]

    assert drive(TimeoutError("late")) == "hidden"
    with pytest.raises(Refused):
        drive(Refused("key"))
    assert len(closed) == 2


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_the_rest_of_a_batch_is_not_begun_after_a_mistake(concurrency):
    items = (Complete(ASKED, "t"),) * 500
    llm = FunctionLLM(raising(Refused("key")), seconds=0.001)
    with pytest.raises(Refused):
        run(batch(items), llm=llm, max_concurrency=concurrency)
    with pytest.raises(Refused):
        await arun(batch(items), llm=llm, max_concurrency=concurrency)
    assert len(llm.received_messages) < 100


async def test_a_scorer_that_stops_the_iteration_ends():
    """On Python 3.11 the thread's future never came back."""
    end = ENDDenoiser(FunctionScorer(raising(StopIteration())))
    result = await asyncio.wait_for(Guard(end).adenoise("q", TWO_PASSAGES), 10)
    assert result.passages == TWO_PASSAGES
    assert "StopIteration" in result.fallback


WRONG = {name: fault for name, fault in faults_of("denoise").items() if "gives" in name}


@pytest.mark.parametrize("name", WRONG)
def test_what_comes_back_wrong_follows_the_policy(name):
    denoiser = Faulty(WRONG[name])
    kept = Guard(denoiser).denoise("q", iter(TWO_PASSAGES))
    assert kept.passages == TWO_PASSAGES
    assert kept.failures.keys() == {"a", "b"}
    dropped = asyncio.run(
        Guard(denoiser, on_error="drop").adenoise("q", iter(TWO_PASSAGES))
    )
    assert dropped.passages == ()
    check_result(TWO_PASSAGES, dropped)
    with pytest.raises(ContractViolation):
        Guard(denoiser, on_error="raise").denoise("q", TWO_PASSAGES)


def test_a_generator_of_kept_passages_is_read_once():
    lazy = Faulty(lambda query, passages: DenoiseResult(query, iter(passages)))
    assert Guard(lazy).denoise("q", TWO_PASSAGES).passages == TWO_PASSAGES


def test_what_is_neither_kept_nor_dropped_is_listed():
    silent = Faulty(lambda query, passages: DenoiseResult(query, passages[1:]))
    result = Guard(silent).denoise("q", TWO_PASSAGES)
    check_result(TWO_PASSAGES, result)
    assert result.dropped == (Drop(Span("a", 0, 3), "left out"),)
